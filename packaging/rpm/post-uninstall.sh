if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || :
    # The socket stays, so that nobody is refused who connects meanwhile.
    [ "$1" -lt 1 ] || systemctl try-restart multilane.service || :
fi
