package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// What cannot be built is named, with the kernel's reason, and the cell is gone.
func TestRoomsThatFail(t *testing.T) {
	dir := workspace(t, me)
	for name, c := range map[string]struct {
		change func(*cell.Room)
		extra  []*os.File
		args   func([]string) []string
		step   string
		errno  unix.Errno
	}{
		"no capabilities": {
			args: func(a []string) []string { return without(a, "--cap-add", "ALL") }, step: "namespace", errno: unix.EPERM,
		},
		"a door outside of the range": {
			change: func(r *cell.Room) {
				r.Range, r.Listeners = synthetic, []cell.Listener{doorAt("198.18.0.1:80"), doorAt("192.0.2.1:80")}
			},
			step: "door", errno: unix.EADDRNOTAVAIL,
		},
		"two doors in one place": {
			change: func(r *cell.Room) { r.Listeners = []cell.Listener{doorAt("0.0.0.0:80"), doorAt("127.0.0.1:80")} },
			step:   "door", errno: unix.EADDRINUSE,
		},
		"a range that is taken": {
			change: func(r *cell.Room) { r.Range = "127.0.0.0/8" }, step: "network", errno: unix.EEXIST,
		},
		"a counter that can be written": {
			change: func(r *cell.Room) { r.Extra = []string{cell.ExtraCounter} }, extra: []*os.File{null(t)}, step: "room", errno: unix.EINVAL,
		},
		"a counter that only names something": {
			change: func(r *cell.Room) { r.Extra = []string{cell.ExtraCounter} }, extra: []*os.File{opened(t, "/sys", unix.O_PATH)}, step: "room",
			errno: unix.EINVAL,
		},
		"a filter that is none": {
			change: func(r *cell.Room) { r.Filter = []byte{255, 255, 0, 0, 0, 0, 0, 0} }, step: "seccomp", errno: unix.EINVAL,
		},
		"descriptors for nothing": {extra: []*os.File{null(t)}, step: "room", errno: unix.EINVAL},
		"nothing for a name":      {change: func(r *cell.Room) { r.Extra = []string{cell.ExtraCounter} }, step: "room", errno: unix.EINVAL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := plain(dir)
			if c.change != nil {
				c.change(&r)
			}
			args := bwrapArgs(me, dir)
			if c.args != nil {
				args = c.args(args)
			}
			conn, cmd, _ := enterRoom(t, me, dir, args...)
			h := &held{t: t, conn: conn, cmd: cmd}
			h.build(r, c.extra...)
			if f := h.expect(cell.ReportFailed); f.Step != c.step || unix.Errno(f.Errno) != c.errno || f.Text == "" {
				t.Errorf("%+v", f)
			}
			if code := h.code(); code != refused {
				t.Errorf("exit %d", code)
			}
		})
	}
}

// without leaves a row of arguments out.
func without(args []string, row ...string) []string {
	for i := range args {
		if len(args)-i >= len(row) && slices.Equal(args[i:i+len(row)], row) {
			return slices.Delete(args, i, i+len(row))
		}
	}
	return args
}

// A cell that waits for a room does nothing else, and a room comes once.
func TestRoomProtocol(t *testing.T) {
	dir := workspace(t, me)
	for name, c := range map[string]struct {
		order cell.Order
		files []*os.File
		step  string
	}{
		"a run":          {cell.Order{Kind: cell.OrderRun}, []*os.File{specFile(t, shell("true")), null(t), null(t), null(t)}, "protocol"},
		"a preparation":  {cell.Order{Kind: cell.OrderPrepare}, []*os.File{specFile(t, shell("true"))}, "protocol"},
		"a signal":       {cell.Order{Kind: cell.OrderSignal, Signal: 15}, nil, "protocol"},
		"nonsense":       {cell.Order{Kind: "sing"}, nil, "protocol"},
		"no room":        {cell.Order{Kind: cell.OrderBuild}, nil, "protocol"},
		"a stop":         {cell.Order{Kind: cell.OrderStop, Reason: "enough"}, nil, "stopped"},
		"an open file":   {cell.Order{Kind: cell.OrderBuild}, []*os.File{null(t)}, "room"},
		"a spec as room": {cell.Order{Kind: cell.OrderBuild}, []*os.File{specFile(t, shell("true"))}, "room"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, cmd, _ := enterRoom(t, me, dir)
			h := &held{t: t, conn: conn, cmd: cmd}
			var fds []int
			for _, f := range c.files {
				fds = append(fds, rawFD(t, f))
			}
			h.send(c.order, fds...)
			if f := h.expect(cell.ReportFailed); f.Step != c.step || f.Text == "" {
				t.Errorf("%+v", f)
			}
		})
	}
	h, _ := room(t, me, plain(dir))
	h.build(plain(dir))
	if f := h.expect(cell.ReportFailed); f.Step != "protocol" {
		t.Errorf("a second room: %+v", f)
	}
	h = start(t, me)
	h.build(plain(dir))
	if f := h.expect(cell.ReportFailed); f.Step != "protocol" {
		t.Errorf("a room for tier B: %+v", f)
	}
}

// Nothing of bubblewrap's own that it had open is open in the room.
func TestTidy(t *testing.T) {
	dir := workspace(t, me)
	h, _ := room(t, me, plain(dir))
	pid := only(t, h.cmd.Process.Pid)
	open := "/proc/" + itoa(pid) + "/fd/"
	if _, err := os.Readlink(open + "0"); err != nil && os.Getuid() != 0 {
		t.Skip("UNPROVEN HERE: only root can look")
	}
	// What it reads to rehearse goes as soon as it has.
	until(t, "nothing but its own", func() bool {
		entries, err := os.ReadDir(open)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			to, _ := os.Readlink(open + e.Name())
			if strings.HasPrefix(to, "/") && to != "/dev/null" && to != "/proc" {
				return false
			}
		}
		return true
	})
}
