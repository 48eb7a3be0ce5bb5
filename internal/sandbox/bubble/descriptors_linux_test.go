package bubble

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/sandbox/celltest"
)

// TestBackendKeepsItsCgroups: whatever runs under the uid of a run's owner, that user
// can take descriptors from, also from the cells of his runs. While rooms are built,
// warm and cold, and programs run in them, everything he could take is taken: what is
// of a cgroup among it can be read, and not be used to put anybody into a cgroup or
// out of one.
func TestBackendKeepsItsCgroups(t *testing.T) {
	if os.Geteuid() != 0 {
		return // a daemon that is the user himself has cgroups that are his own
	}
	c := configOf(t)
	c.Warm = 2
	b := openBackend(t, c)
	if b.fleet.Groups.Version == 0 {
		t.Skip("UNPROVEN HERE: no cgroups")
	}
	s := newSite(t, celltest.OrdinaryResident())
	var read atomic.Int64
	stop := make(chan struct{})
	var thief sync.WaitGroup
	thief.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				read.Add(int64(takeAll(t, s.who.UID)))
			}
		}
	})
	for range 6 {
		p := s.starts(b, "echo ready; exec sleep 1000")
		before := read.Load()
		eventually(t, "a walk that finds the counters of a run", func() bool { return read.Load() > before })
		p.Stop("cancelled", 0)
		waitFor(t, p)
	}
	close(stop)
	thief.Wait()
}

// takeAll takes what a user's processes have open and says how much of it is of
// cgroups. Root takes at least what the user himself could.
func takeAll(t *testing.T, uid int64) (found int) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		status, _ := os.ReadFile(dir + "/status")
		if !strings.Contains(string(status), fmt.Sprintf("\nUid:\t%d\t", uid)) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		handle, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		fds, _ := os.ReadDir(dir + "/fd")
		for _, e := range fds {
			n, _ := strconv.Atoi(e.Name())
			fd, err := unix.PidfdGetfd(handle, n, 0)
			if err != nil {
				continue
			}
			if used, why := ofCgroup(fd); used {
				if found++; why != nil {
					name, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
					t.Errorf("%s of process %d: %v", name, pid, why)
				}
			}
			_ = unix.Close(fd)
		}
		_ = unix.Close(handle)
	}
	return found
}

// ofCgroup tells whether a descriptor is of a cgroup, and what could be done with it.
func ofCgroup(fd int) (bool, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || fs.Type != unix.CGROUP_SUPER_MAGIC && fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return false, nil
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err == nil && flags&(unix.O_ACCMODE|unix.O_PATH) != unix.O_RDONLY {
		err = errors.New("it is open for more than reading")
	}
	return true, err
}

// TestBackendNamesMemory: a run that shares its cgroup with its cell is ended for its
// own memory, wherever it puts it, by that name, and has as much as it was given.
func TestBackendNamesMemory(t *testing.T) {
	b := openBackend(t, configOf(t))
	if b.fleet.Groups.Memory == "" {
		return // it is counted, and the cell does that
	}
	s := newSite(t, celltest.Residents()[0])
	for script, limit := range map[string]string{
		"head -c 200000000 /dev/zero | tail | wc -c":                  "memory",
		"head -c 50000000 /dev/zero > /tmp/x; echo more; sleep 1000":  "memory",
		"x=$(head -c 3000000 /dev/zero | tr '\\0' x); echo ${#x}":     "",
		"for i in 1 2 3 4; do sleep 0.1 & done; wait; echo all right": "",
	} {
		j := s.job("/bin/sh", "-c", script)
		j.Limits.MemoryBytes, j.Limits.Processes = 16<<20, 8
		if e := runJob(t, b, j); e.Limit != limit || limit == "" && e.Code != 0 {
			t.Errorf("%s: %q, code %d, %s: %s", script, e.Limit, e.Code, e.Signal, s.printed())
		}
	}
}
