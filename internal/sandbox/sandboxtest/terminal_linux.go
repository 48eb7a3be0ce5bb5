package sandboxtest

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func aTerminal(t *testing.T, d *desk) {
	p := d.plan(t, nil, "sh", "-c", "tty || true; stty size; test -t 0 && test -t 1 && test -t 2 && echo three; echo x > /dev/tty")
	p.Terminal = true
	res := d.run(t, t.Context(), p)
	out := string(res.Stdout)
	named := strings.Contains(out, "/dev/pts/") || d.has(t, ownFiles) // where terminals have no names inside
	if !named || !strings.Contains(out, "30 100") || !strings.Contains(out, "three") || res.ExitCode != 0 {
		t.Errorf("%q, code %d, %+v", out, res.ExitCode, res.Refusal)
	}
}

// otherTerminal: a program on a terminal of its own does not get those of others.
func otherTerminal(t *testing.T, d *desk) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	check(t, err)
	defer func() { _ = master.Close() }()
	check(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	check(t, err)
	path := "/dev/pts/" + strconv.Itoa(n)
	d.own(t, path)
	for _, terminal := range []bool{false, true} {
		p := d.plan(t, nil, d.probe, "try", "device", path, "+", "device", "/dev/ptmx")
		p.Terminal = terminal
		for i, v := range verdicts(t, string(d.run(t, t.Context(), p).Stdout), 2) {
			if v.Errno == "" && (i == 0 || d.lacks(t, ownFiles)) { // new ones of its own it may have
				t.Errorf("another terminal can be opened; on an own one: %v", terminal)
			}
		}
	}
	for _, v := range d.outsideAs(t, d.who, []string{"device " + path, "device /dev/ptmx"}) {
		if v.Errno != "" {
			t.Errorf("control: %s", v.Error)
		}
	}
}

// typing into the terminal that it was given is not for the program.
func typing(t *testing.T, d *desk) {
	p := d.plan(t, nil, d.probe, "try", "ioctl", "TIOCSTI", "+", "ioctl", "TIOCLINUX", "+", "ioctl", "TIOCSTI_high")
	p.Terminal = true
	for _, v := range verdicts(t, string(d.run(t, t.Context(), p).Stdout), 3) {
		if v.Errno != "EPERM" {
			t.Errorf("%s: %q", v.Op, v.Error)
		}
	}
}

// aScript runs from a copy that it cannot change. It can change itself, or is told that it cannot.
func aScript(t *testing.T, d *desk) {
	text := "#!/bin/sh\necho one\n(echo 'echo two' >> " + d.ws + "/selfish) && echo kept\necho end\n"
	script := d.file(t, "selfish", text)
	check(t, os.Chmod(script, 0o755))
	res := d.run(t, t.Context(), d.plan(t, nil, script))
	want, after := "one\nkept\nend\n", text+"echo two\n"
	if d.has(t, ownFiles) { // the copy lies over it
		want, after = "one\nend\n", text
	}
	if string(res.Stdout) != want || res.ExitCode != 0 {
		t.Errorf("%q %q, code %d, %+v", res.Stdout, res.Stderr, res.ExitCode, res.Refusal)
	}
	if got, err := os.ReadFile(script); err != nil || string(got) != after {
		t.Errorf("the script is now %q, %v", got, err)
	}
}
