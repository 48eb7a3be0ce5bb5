package main

import (
	"os"
	"os/exec"
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
		step   string
		errno  unix.Errno
	}{
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
		"descriptors for nothing": {extra: []*os.File{null(t)}, step: "room", errno: unix.EINVAL},
		"nothing for a name":      {change: func(r *cell.Room) { r.Extra = []string{cell.ExtraCounter} }, step: "room", errno: unix.EINVAL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := plain(dir)
			if c.change != nil {
				c.change(&r)
			}
			h, f, _ := tryRoom(t, me, r, c.extra...)
			if f.Kind != cell.ReportFailed || f.Step != c.step || unix.Errno(f.Errno) != c.errno || f.Text == "" {
				t.Errorf("%+v", f)
			}
			if first := only(t, h.cmd.Process.Pid); len(children(t, first)) > 0 {
				until(t, "the end of what was begun", func() bool { return len(children(t, first)) == 0 })
			}
			if f := h.build(plain(dir)); f.Kind != cell.ReportBuilt { // the template is none the worse for it
				t.Errorf("the next one: %+v", f)
			}
		})
	}
}

// A template without the rights to make rooms says so at once.
func TestTemplateWithoutRights(t *testing.T) {
	dir := workspace(t, me)
	args := without(bwrapArgs(me, dir), "--cap-add", "ALL")
	conn, theirs := connected(t)
	program, err := image()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(bubblewrap, args...)
	c.Env, c.ExtraFiles = []string{}, []*os.File{theirs, program}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	template := cell.NewTemplate(conn)
	defer func() { _ = template.Close(); _ = c.Wait() }()
	r, err := template.Ready(t.Context())
	if err != nil || r.Kind != cell.ReportFailed || r.Step != "namespace" || unix.Errno(r.Errno) != unix.EPERM {
		t.Errorf("%+v, %v", r, err)
	}
}

// What cannot be done to the first process of a room ends it, with the reason.
func TestFirstProcessFails(t *testing.T) {
	r := plain(workspace(t, me))
	r.Filter = []byte{255, 255, 0, 0, 0, 0, 0, 0}
	h := &held{t: t}
	h.template, h.cmd, _ = enterRoom(t, me, r.Workspace)
	h.raw(r)
	h.send(cell.Order{Kind: cell.OrderConfine})
	if f := h.expect(cell.ReportFailed); f.Step != "seccomp" || unix.Errno(f.Errno) != unix.EINVAL {
		t.Errorf("a filter that is none: %+v", f)
	}
	h.code()
	h.raw(plain(r.Workspace))
	h.send(cell.Order{Kind: cell.OrderConfine}, int(opened(t, "/proc/self/limits", os.O_RDONLY).Fd()))
	if f := h.expect(cell.ReportFailed); f.Step != "cgroup" || unix.Errno(f.Errno) != unix.EBADF {
		t.Errorf("a cgroup that cannot be entered: %+v", f)
	}
	h.code()
	h.raw(plain(r.Workspace))
	h.send(cell.Order{Kind: cell.OrderRun})
	if f := h.expect(cell.ReportFailed); f.Step != "protocol" {
		t.Errorf("a run of nothing: %+v", f)
	}
	h.code()
	for name, files := range map[string][]*os.File{
		"no image":    {null(t), null(t), null(t), null(t)},
		"a long file": {opened(t, "/usr/bin/env", os.O_RDONLY), null(t), null(t), null(t)},
		"a spec":      {specFile(t, shell("true")), null(t), null(t), null(t)},
	} {
		h.build(plain(r.Workspace))
		var fds []int
		for _, f := range files {
			fds = append(fds, rawFD(t, f))
		}
		h.send(cell.Order{Kind: cell.OrderRun}, fds...)
		if f := h.expect(cell.ReportFailed); f.Step != "image" {
			t.Errorf("%s: %+v", name, f)
		}
		h.code()
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

// A template that is told what makes no sense ends, and its rooms with it.
func TestTemplateProtocol(t *testing.T) {
	dir := workspace(t, me)
	for name, c := range map[string]struct {
		order cell.Order
		files []*os.File
	}{
		"a run":           {cell.Order{Kind: cell.OrderRun}, []*os.File{specFile(t, shell("true")), null(t), null(t), null(t)}},
		"a user":          {cell.Order{Kind: cell.OrderBecome}, []*os.File{specFile(t, shell("true"))}},
		"a signal":        {cell.Order{Kind: cell.OrderSignal, Signal: 15}, nil},
		"nonsense":        {cell.Order{Kind: "sing"}, nil},
		"no room":         {cell.Order{Kind: cell.OrderBuild, Room: 7}, nil},
		"no number":       {cell.Order{Kind: cell.OrderBuild}, []*os.File{null(t), null(t)}},
		"the same number": {cell.Order{Kind: cell.OrderBuild, Room: 1}, []*os.File{null(t), null(t)}},
		"a cover of two":  {cell.Order{Kind: cell.OrderCover, Room: 1}, []*os.File{null(t), null(t)}},
		"no limits":       {cell.Order{Kind: cell.OrderWatch, Room: 1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, _ := inhabit(t, me, plain(dir))
			var fds []int
			for _, f := range c.files {
				fds = append(fds, rawFD(t, f))
			}
			if err := h.template.Send(c.order, fds...); err != nil {
				t.Fatal(err)
			}
			h.expect("")
			<-h.template.Gone()
		})
	}
	for name, f := range map[string]*os.File{"an open file": null(t), "a spec as room": specFile(t, shell("true"))} {
		h, _ := inhabit(t, me, plain(dir))
		r, err := h.template.Ask(t.Context(), cell.Order{Kind: cell.OrderBuild, Room: 1000}, rawFD(t, f), rawFD(t, null(t)))
		if err != nil || r.Kind != cell.ReportFailed || r.Step != "room" {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	h := start(t, me)
	h.send(cell.Order{Kind: cell.OrderBuild, Room: 1}, rawFD(t, null(t)), rawFD(t, null(t)))
	if f := h.expect(cell.ReportFailed); f.Step != "protocol" {
		t.Errorf("a room for tier B: %+v", f)
	}
}

// Nothing of bubblewrap's own that it had open is open in the template, and nothing of the template's in a room.
func TestTidy(t *testing.T) {
	dir := workspace(t, me)
	inherited, err := unix.FcntlInt(null(t).Fd(), unix.F_DUPFD, 200) // as of a shell that the daemon was started from
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	h, _ := inhabit(t, me, plain(dir))
	template := only(t, h.cmd.Process.Pid)
	if _, err := os.Readlink("/proc/" + itoa(template) + "/fd/0"); err != nil && os.Getuid() != 0 {
		t.Skip("UNPROVEN HERE: only root can look")
	}
	for name, pid := range map[string]int{"template": template, "first": only(t, template)} {
		open := "/proc/" + itoa(pid) + "/fd/"
		entries, err := os.ReadDir(open)
		if err != nil {
			t.Fatal(err)
		}
		if name == "first" && len(entries) > 3+3 { // its line, its rules, its children
			t.Errorf("%d descriptors are open in a room", len(entries))
		}
		for _, e := range entries {
			to, _ := os.Readlink(open + e.Name())
			if strings.HasPrefix(to, "/memfd:palyra-room") { // its order, which it closes when it has answered
				continue
			}
			if strings.HasPrefix(to, "/") && (to != "/dev/null" || e.Name() == itoa(inherited)) && to != "/proc" {
				t.Errorf("%s: %s is open", name, to)
			}
		}
	}
}
