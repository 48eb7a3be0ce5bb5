package main

import (
	"bufio"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// What is hidden is there, empty, and stays so; what is not there is no reason to
// fail.
func TestHide(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		dir := workspace(t, w, "secret", "secrets/", "secrets/one", "fixed/", "fixed/file", "other")
		r := plain(dir)
		r.Hide = []string{dir + "/secret", dir + "/secrets", "/proc/timer_list", "/usr/share", "/proc/not/there", "/not/there"}
		r.ReadOnly = []string{dir + "/fixed", "/proc/sys", "/not/there"}
		out := inRoom(t, w, r, `cat secret; ls secrets /usr/share; cat /proc/timer_list; cat fixed/file; echo
			for c in 'echo x > secret' 'echo x > secrets/new' 'rm secret' 'rmdir secrets' 'mv secrets away' 'mv other secret' 'chmod 777 secret' 'umount secret' \
				'echo x > fixed/new' 'echo x > fixed/file' 'mv fixed away' 'chmod 700 fixed' 'rm fixed/file' 'umount fixed' 'echo 1 > /proc/sys/vm/drop_caches' 'echo x > /proc/sys/kernel/hostname'; do
				if (eval "$c") 2>/dev/null; then echo "WORKED: $c"; fi
			done
			cat /proc/sys/kernel/ostype`)
		if out != "/usr/share:\n\nsecrets:\nfirst fixed/file\nLinux\n" {
			t.Errorf("%q", out)
		}
		for _, p := range []string{"secret", "secrets/one", "fixed/file"} {
			if b, err := os.ReadFile(filepath.Join(dir, p)); err != nil || string(b) != "first "+p {
				t.Errorf("outside, %s is %q, %v", p, b, err)
			}
		}
	})
}

// Of a held workspace what is open can be changed as any other, and of all the rest not even a mode, an owner or a time.
func TestHeldWorkspace(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		dir := workspace(t, w, "shut/", "shut/file", "top", "out/", "out/file", "deep/", "deep/in/", "deep/in/open", "gone")
		r := plain(dir)
		r.Held, r.Open = true, []string{dir + "/out", dir + "/deep/in/open", dir + "/missing"}
		out := inRoom(t, w, r, `cat shut/file top; echo
				for c in 'chmod 777 shut' 'chmod 600 top' 'touch -d @0 top' 'touch -a shut/file' 'ln top out/second' 'mv gone out/gone' 'rm gone' 'echo x > top' 					'echo x > new' 'mv out away' 'rmdir deep' 'chmod 700 .' 'touch deep/in' 'umount .' 'mkdir missing' 'ln -s top link'; do
					if (eval "$c") 2>/dev/null; then echo "WORKED: $c"; fi
				done
				chmod 700 out/file out && echo x > out/new && rm out/file && touch -d @0 out/new && echo y > deep/in/open && chmod 755 out && cat out/new deep/in/open`)
		if out != "first shut/filefirst top\nx\ny\n" {
			t.Errorf("%q", out)
		}
	})
}

// A path that leads through a link could hide something else.
func TestHideFollowsNoLinks(t *testing.T) {
	dir := workspace(t, me, "sub/", "sub/file")
	if err := os.Symlink("sub", filepath.Join(dir, "way")); err != nil {
		t.Fatal(err)
	}
	r := plain(dir)
	r.Hide = []string{dir + "/way/file"}
	_, first, _ := tryRoom(t, me, r)
	if first.Kind != cell.ReportFailed || first.Step != "hide" || unix.Errno(first.Errno) != unix.ELOOP {
		t.Errorf("%+v", first)
	}
}

func TestHostname(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		before, _ := os.Hostname()
		r := plain(workspace(t, w))
		if out := inRoom(t, w, r, "uname -n"); out != "palyra.test\n" {
			t.Errorf("%q", out)
		}
		if after, _ := os.Hostname(); after != before {
			t.Errorf("the machine is called %s now", after)
		}
	})
}

// A terminal works in a room as outside of one.
func TestTerminalInARoom(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		master, slave := terminal(t, 31, 97)
		s := shell(`stty size; test -t 0 && test -t 1 && test -t 2 && echo three
			trap 'stty size; echo sized' WINCH; trap 'echo interrupted; exit 8' INT; echo waiting; while :; do sleep 0.01; done`)
		s.Terminal = true
		h, _ := inhabit(t, w, plain(workspace(t, w)))
		out := bufio.NewScanner(master)
		h.orderWith(s, slave, dup(t, slave), dup(t, slave))
		h.expect(cell.ReportStarted)
		seen(t, out, "31 97", "three", "waiting")
		if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 12, Col: 34}); err != nil { // as daemons do
			t.Fatal(err)
		}
		seen(t, out, "12 34", "sized")
		if _, err := master.Write([]byte{3}); err != nil {
			t.Fatal(err)
		}
		seen(t, out, "^Cinterrupted")
		if exited := h.expect(cell.ReportExited); exited.Code != 8 {
			t.Errorf("%+v", exited)
		}
		h.expect(cell.ReportEnded)
	})
}

// The terminals that programs make are their room's own, and neither another room's nor the machine's.
func TestTerminalsOfItsOwn(t *testing.T) {
	if _, err := os.Stat("/usr/bin/script"); err != nil {
		t.Skip("UNPROVEN HERE: no script(1)")
	}
	eachRoom(t, func(t *testing.T, w who) {
		dir := workspace(t, w)
		h, _ := inhabit(t, w, plain(dir))
		s := shell(`script -qec 'echo $(ls /dev/pts) on $(tty); read x' /dev/null`)
		for range 2 { // at once, in two rooms of one template
			h.order(s)
			h.expect(cell.ReportStarted)
			h.build(plain(dir))
		}
		out, _ := h.runs(shell(`script -qec 'echo $(ls /dev/pts) on $(tty)' /dev/null </dev/null`))
		if out != "0 ptmx on /dev/pts/0\r\n" {
			t.Errorf("%q", out)
		}
	})
}
