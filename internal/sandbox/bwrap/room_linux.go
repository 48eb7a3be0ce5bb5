package bwrap

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox/cage"
)

// Hostname is the host name inside a room.
const Hostname = "palyra"

// roomUser is root's uid inside, in its own workspaces: programs treat uid 0 differently, and would
// expect rights that they do not have.
const roomUser = 1000

const (
	roomRunBytes = 8 << 20
	roomMaxTmp   = 64 << 30
)

// Room is what bubblewrap builds for a cell.
type Room struct {
	UID, GID  int64 // of the workspace's owner
	Workspace string
	Stages    string // directory of the stages that writes to the workspace go to; empty: they go into the workspace
	// Repository is what the workspace is a work tree of: shown read-only, or, with stages, written to one.
	Repository palyra.Repository

	Mounts []palyra.Mount
	Files  []palyra.RoomFile
	Pack   cage.Layout // of a skill
	Tmp    int64       // bytes of /tmp, and again of the home and of /dev/shm
}

// Inside returns the run's uid and gid inside the room.
func (r Room) Inside() (uid, gid int64) {
	uid, gid = r.UID, r.GID
	uid = cmp.Or(uid, roomUser)
	gid = cmp.Or(gid, roomUser)
	return uid, gid
}

// Writable lists the places of a room, beside its workspace and mounts, that can be written to.
func Writable() []string { return []string{cell.RoomHome, cell.RoomTmp, cell.RoomRun, cell.RoomShm} }

// HiddenProc lists the files of a new /proc about the whole machine that no program needs in order to work: memory,
// keys, devices, and counters that tell what others do. Root could write to some of them, and runs in root's own
// workspaces are root to the outside. The cell covers each with something empty.
func HiddenProc() []string {
	return strings.Fields(`
		/proc/acpi /proc/asound /proc/buddyinfo /proc/bus /proc/cmdline /proc/config.gz /proc/consoles /proc/crypto /proc/diskstats
		/proc/dma /proc/driver /proc/dynamic_debug /proc/fs /proc/fb /proc/interrupts /proc/iomem /proc/ioports /proc/irq
		/proc/kallsyms /proc/kcore /proc/key-users /proc/keys /proc/kmsg /proc/kpagecgroup /proc/kpagecount /proc/kpageflags
		/proc/latency_stats /proc/mdstat /proc/modules /proc/mtrr /proc/pagetypeinfo /proc/partitions /proc/pressure
		/proc/sched_debug /proc/schedstat /proc/scsi /proc/slabinfo /proc/softirqs /proc/spl /proc/swaps /proc/sysrq-trigger
		/proc/timer_list /proc/timer_stats /proc/tty /proc/vmallocinfo /proc/vmcore /proc/xen /proc/zoneinfo
	`)
}

var roomMark = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// Command is the command line of bubblewrap, with its files.
type Command struct {
	Path  string
	Argv  []string
	Env   []string   // empty, and not nil
	Files []*os.File // from descriptor 3 on

	args *arguments
}

// Close closes the files that were opened for the command. It may be called once the process has started.
func (c *Command) Close() { c.args.cleanup() }

// Command returns the command by which bubblewrap builds a room and becomes the cell in it. The
// cell finds control at descriptor 3 and nothing else but its own image.
func (b *Program) Command(r Room, image, control, info *os.File, mark string) (*Command, error) {
	if !roomMark.MatchString(mark) {
		return nil, fmt.Errorf("bwrap: command: %q is no mark", mark)
	}
	if r.Workspace == "" {
		return nil, workspaceDenied("there is no workspace")
	}
	a := &arguments{}
	if n := a.pass(control); n != strconv.Itoa(cell.ControlFD) {
		return nil, fmt.Errorf("bwrap: command: the control socket would be descriptor %s", n)
	}
	program := "/proc/self/fd/" + a.pass(image)
	if info != nil {
		a.add("--info-fd", a.pass(info))
	}
	err := b.furnish(a, r)
	var argv []string
	if err == nil {
		argv, err = a.argv(program, cell.InsideArg, mark)
	}
	if err != nil {
		a.cleanup()
		return nil, err
	}
	return &Command{Path: b.exe(), Argv: argv, Env: []string{}, Files: a.files, args: a}, nil
}

// furnish adds the options that build a room. Without a workspace it is a room for trying.
func (b *Program) furnish(a *arguments, r Room) error {
	if err := r.check(); err != nil {
		return err
	}
	items, err := b.system()
	if err != nil {
		return err
	}
	a.texts = &b.texts
	hidden := b.Places.Hidden()
	if slices.ContainsFunc(hidden, gone) {
		b.Places.Again(hidden)
		hidden = b.Places.Hidden()
	}
	return b.arrange(a, r, hide(items, hidden))
}

// systemFor is how long a look at the system counts before it is repeated.
const systemFor = 5 * time.Second

// system looks at the system, or returns the last look: rooms are built in bursts, and the system changes rarely.
func (b *Program) system() ([]item, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.looked) < systemFor {
		return b.items, nil
	}
	now := time.Now()
	if b.traces == nil || !sameTraces(b.traces) {
		items, traces, err := lookAtSystem("/", 0)
		if err != nil {
			return nil, err
		}
		if b.items, b.traces = items, traces; !settled(traces, now) {
			b.traces = nil
		}
	}
	b.looked = now
	return b.items, nil
}

// View stands for what the system looked like: two of them are equal if it looked the same.
type View struct{ items *item }

// View looks at the system.
func (b *Program) View() (View, error) {
	items, err := b.system()
	if err != nil {
		return View{}, err
	}
	return View{&items[0]}, nil // there is /usr at least
}

// arrange adds all options in the order in which they must be applied.
func (b *Program) arrange(a *arguments, r Room, items []item) error {
	b.namespaces(a, r)
	if err := a.items(items); err != nil {
		return err
	}
	a.cover(r, items)
	a.private(r)
	if err := a.generated(r); err != nil {
		return err
	}
	places := newPlaces(items)
	if err := a.workspace(r, places); err != nil {
		return err
	}
	if err := a.stages(r); err != nil {
		return err
	}
	if err := a.repository(r, places); err != nil {
		return err
	}
	if err := a.mounts(r, places); err != nil {
		return err
	}
	if err := a.roomFiles(r, places); err != nil {
		return err
	}
	if err := a.pack(r, places); err != nil {
		return err
	}
	a.fasten(r, items)
	a.add("--remount-ro", "/dev", "--remount-ro", "/")
	return nil
}

func (r Room) check() error {
	switch {
	case r.UID < 0 || r.UID > 1<<32-2 || r.GID < 0 || r.GID > 1<<32-2:
		return workspaceDenied("no one is uid %d, gid %d", r.UID, r.GID)
	case os.Geteuid() != 0 && r.UID != int64(os.Geteuid()):
		return workspaceDenied("the daemon cannot work as uid %d", r.UID).WithRemedy("run the daemon as that user, or as root")
	case r.Tmp <= 0 || r.Tmp > roomMaxTmp:
		return fmt.Errorf("bwrap: room: %d bytes for temporary files", r.Tmp)
	}
	return nil
}

// namespaces adds what the room does not share with the host. Capabilities are those of its own
// user namespace; the cell needs them to make rooms from it, in user namespaces below.
func (b *Program) namespaces(a *arguments, r Room) {
	uid, gid := r.Inside()
	a.add("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--unshare-net")
	a.add("--uid", strconv.FormatInt(uid, 10), "--gid", strconv.FormatInt(gid, 10))
	a.add("--hostname", Hostname, "--chdir", "/", "--new-session", "--as-pid-1", "--cap-add", "ALL")
}

// arguments collects bubblewrap's arguments and the descriptors that they name.
type arguments struct {
	texts *texts // texts that many rooms share; nil: none are kept
	words []string
	files []*os.File // from descriptor 3 on
	own   []*os.File // those of files that we must close
}

func (a *arguments) add(words ...string) { a.words = append(a.words, words...) }

// pass adds a descriptor and returns its number in the child.
func (a *arguments) pass(f *os.File) string {
	a.files = append(a.files, f)
	return strconv.Itoa(2 + len(a.files))
}

// give is pass for a file that this command opened itself.
func (a *arguments) give(f *os.File) string {
	a.own = append(a.own, f)
	return a.pass(f)
}

// data adds a text as a file descriptor.
func (a *arguments) data(name, text string) (string, error) {
	f, err := memoryOf(name, text)
	if err == nil {
		n := a.give(f)
		if _, err = f.Seek(0, io.SeekStart); err == nil {
			return n, nil
		}
	}
	return "", fmt.Errorf("bwrap: %s: %w", name, err)
}

// same is data for a text that many rooms share.
func (a *arguments) same(name, text string) (string, error) {
	if a.texts == nil {
		return a.data(name, text)
	}
	f, err := a.texts.open(text)
	if err != nil {
		return "", fmt.Errorf("bwrap: %s: %w", name, err)
	}
	return a.give(f), nil
}

// argv is the command line. The room's options are not on it, where everybody could read them, but in a descriptor.
func (a *arguments) argv(program ...string) ([]string, error) {
	for _, w := range a.words {
		if strings.ContainsRune(w, 0) {
			return nil, errors.New("bwrap: command: an argument has a NUL byte")
		}
	}
	n, err := a.data("arguments", strings.Join(a.words, "\x00")+"\x00")
	if err != nil {
		return nil, err
	}
	return append([]string{"bwrap", "--args", n, "--"}, program...), nil
}

func (a *arguments) cleanup() {
	for _, f := range a.own {
		_ = f.Close() // the child has its own
	}
	a.own = nil
}
