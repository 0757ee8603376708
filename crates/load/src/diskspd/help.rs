//! The help of `-?`, and the form of each option for who got it wrong.

/// How an option is written.
pub(super) fn form(letter: char) -> &'static str {
    match letter {
        'b' => "-b<size>, such as -b4K",
        'B' => "-B<offset>, such as -B1G",
        'c' => "-c<size>, such as -c2G",
        'C' => "-C<seconds>, such as -C5",
        'd' => "-d<seconds>, such as -d60",
        'D' => "-D[milliseconds], such as -D or -D500",
        'f' => "-f<size>, such as -f1G, or -f with letters of r, s and t",
        'F' => "-F<threads>, such as -F8",
        'g' => "-g<bytes a millisecond> or -g<requests a second>i, such as -g1000i",
        'i' => "-i<requests>, such as -i32, with -j",
        'I' => "-I1, -I2 or -I3",
        'j' => "-j<milliseconds>, such as -j10, with -i",
        'o' => "-o<requests>, such as -o8",
        'O' => "-O<requests>, such as -O32, with -F",
        'P' => "-P[requests], such as -P or -P1000",
        'R' => "-Rtext, -Rxml, -Rptext or -Rpxml",
        't' => "-t<threads>, such as -t8",
        'T' => "-T<size>, such as -T1G",
        'v' => "-v or -vs",
        'w' => "-w<percent>, from -w0 to -w100",
        'W' => "-W<seconds>, such as -W30",
        'X' => "-X<file>, such as -Xprofile.xml",
        'z' => "-z or -z<number>, up to 4294967295",
        'Z' => "-Z, -Zr, -Z<size> or -Z<size>,<file>, such as -Z1G",
        ':' => "-:0",
        'h' | 'L' | 'n' | 'p' | 'x' => "the letter alone",
        _ => "-? for the list of options",
    }
}

/// What `-?` prints.
pub const HELP: &str = r"
Usage: multilane diskspd [additions] [options] target1 [target2 ...]

Reads and writes files on an SMB server for a while, without a mount, and reports as DiskSpd 2.2 does.

Targets:
  \\server\share\file, smb://[user@]server[:port]/share/file
  z:\file               with --map z:=smb://server/share
  *1, *2, ...           in a profile: the first, second ... target of the command line

Additions, before the targets:
  --map z:=PLACE        what a drive letter stands for; may be given several times
  --user NAME           sign in as NAME, perhaps DOMAIN\NAME [MULTILANE_USER]
  --password-stdin      take the password from standard input [else MULTILANE_PASSWORD]
  --channels N          connections to use: 0 as many as the interfaces suggest, 1 multichannel off
  --seal                encrypt everything
  --signing WHEN        required [default] or as-server-wants
  --set NAME=VALUE      change a setting of `multilane client configuration`

Options begin with - or /. Sizes take K, M, G, T or b for blocks.
Time:
  -d<seconds>           measure for so long [10]
  -W<seconds>           before that, go without measuring [5]
  -C<seconds>           after that, go on without measuring [0]
Work:
  -b<size>              bytes of a block [64K]
  -w<percent>           writes among the requests [0]; they destroy what the file holds
  -r[size]              random offsets, multiples of size [a block]
  -rs<percent>          so many of the offsets random, the others sequential; -r aligns both
  -rd<pct|abs><parts>   give parts of the target their shares of the requests:
                        -rdpct90/10:0/10:5/20 sends 90 % to the first tenth, none to the next,
                        5 % to the next fifth and what is left to the rest; -rdabs has sizes
  -s[i][size]           sequential offsets, so far apart [a block]; i: threads share one sequence
  -T<size>              distance between the first offsets of two threads [0]
  -B<offset>            where the used part of the file begins [0]
  -f<size>              where it ends [the end]
  -f<r|s|t>             open the file as for random or sequential use, or as temporary
  -c<size>              make files of this size first
Load:
  -t<threads>           threads for each target [1]
  -F<threads>           threads for all targets together, instead of -t
  -o<requests>          in flight for each thread and target [2]
  -O<requests>          in flight for each thread, with -F
  -p                    sequential requests in flight begin at the same offset
  -i<requests>          a burst of so many requests, then
  -j<milliseconds>      a pause
  -g<n>[i]              no more than n bytes a millisecond, or n requests a second with i,
                        for each thread and target
  -I<1..3>, -n, -x      priority, no affinity, completion routines: taken, and without effect
Caching:
  -Sb, -Su (-S), -Sr    everywhere [default], nowhere, only at the server
  -Sw, -Sh (-h)         write-through; -Su and -Sw together
Data to write [bytes 0 to 255 over and over]:
  -Z                    zeros
  -Zr                   new random bytes for each request
  -Z<size>[,file]       pieces of a buffer with random bytes, or with what a file holds
Report:
  -L                    latencies
  -D[milliseconds]      deviation of the requests a second over intervals [1000]
  -R<text|xml>          its form [text]
  -Rp<text|xml>         print the profile, run nothing
  -v, -vs               say what happens, on standard error; s: nothing more, since the
                        client has no completion ports whose waits could be counted
  -P[requests]          progress: taken, and without effect
  -z[seed]              seed of what is random [0]; without a number from the clock
  -X<file>              a profile in XML; only -C, -d, -R, -v, -W, -z and targets may go with it
  -?                    this text

Refused, since they mean nothing to a client without a mount: -a, -e, -l, -N, -Sm, -y.

Exit codes: 0 done, 1 the run failed, 3 the command line or the profile is wrong.

Example:
  multilane diskspd --map z:=smb://alice@nas/media -c2G -b4K -r -w100 -t8 -o8 -Sh -L -d60 z:\a.dat z:\b.dat
";
