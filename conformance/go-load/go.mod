module multilane/conformance/go-load

go 1.25
