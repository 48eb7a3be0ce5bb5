package bubble

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"palyra/internal/cell"
	"palyra/internal/sandbox/cells"
)

// ready does ahead of time what a warm cell can do: its record, its rules.
func (k *keeper) ready() error {
	k.bytes = k.weigh()
	if k.snapshot != nil {
		if err := k.write(true); err != nil {
			return err
		}
	}
	return k.prepare()
}

// prepare has the launcher make the rules that every job of this want begins with.
func (k *keeper) prepare() error {
	filter, err := k.b.fleet.Filter(cells.Subject{Room: true})
	if err != nil {
		return err
	}
	f, err := cell.WriteSpec(cell.Spec{
		Version: cell.Version, Path: "/", Argv: []string{"-"}, Env: []string{}, Cwd: "/", Landlock: k.b.landlock(k.want), Filter: filter,
		Watch: cell.Watch{EveryMS: watchEveryMS},
	})
	if err != nil {
		return err
	}
	return errors.Join(k.Conn.Send(cell.Order{Kind: cell.OrderPrepare}, int(f.Fd())), f.Close())
}

// weigh is roughly the memory of an idle cell: its two processes, of which the daemon sees one, and
// bubblewrap. Shared memory is counted more than once.
func (k *keeper) weigh() int64 {
	resident := func(pid int) int64 {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
		f := strings.Fields(string(b))
		if err != nil || len(f) < 2 {
			return 0
		}
		n, _ := strconv.ParseInt(f[1], 10, 64)
		return n * int64(os.Getpagesize())
	}
	return 2*resident(k.body.first()) + resident(k.body.Pid())
}
