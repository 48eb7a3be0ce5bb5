package quick

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// caught are the signals that are the command's.
var caught = []syscall.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2}

// catch takes them. One that comes while this program becomes the full one ends it, and the daemon, which is told to,
// ends the call. In a fraction of a millisecond of that the kernel may drop one with the thread that took it; the call
// goes on as if it had not been sent, and the next one is heard.
func catch() chan os.Signal {
	signals := make(chan os.Signal, 1)
	for _, s := range caught {
		if !signal.Ignored(s) { // nohup and background shells ignore it on purpose
			signal.Notify(signals, s)
		}
	}
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) // a closed pipe is an error of a write
	return signals
}
