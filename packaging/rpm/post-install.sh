systemd-sysusers multilane.conf || :
systemd-tmpfiles --create multilane.conf || :
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || :
    # What a distribution starts by itself, its presets say.
    [ "$1" -gt 1 ] || systemctl --no-reload preset multilane.socket multilane.service || :
fi
