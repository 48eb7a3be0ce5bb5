package cell

import (
	"errors"
	"fmt"
	"strings"
)

// The longest lists of a Spec: far above any honest use and far below what would hurt.
const (
	maxRules     = 4096
	maxFilter    = 4096 * filterSize // BPF_MAXINSNS
	filterSize   = 8                 // of a struct sock_filter
	maxRlimits   = 64
	maxWatchStep = 10_000
	maxDisks     = 128
)

// Check returns the fault of a Spec that no launcher should try: one that leaves out a part of the
// confinement is refused, not run with less.
func (s *Spec) Check() error {
	switch {
	case s.Version != Version:
		return fmt.Errorf("cell: spec: version %d, this cell speaks %d", s.Version, Version)
	case (!s.Sealed || s.Cover) && !strings.HasPrefix(s.Path, "/"):
		return errors.New("cell: spec: path is not absolute")
	case s.Cover && !s.Sealed:
		return errors.New("cell: spec: nothing to cover with")
	case !strings.HasPrefix(s.Cwd, "/"):
		return errors.New("cell: spec: cwd is not absolute")
	case len(s.Argv) == 0:
		return errors.New("cell: spec: no argv")
	case len(s.Filter) == 0 || len(s.Filter)%filterSize != 0 || len(s.Filter) > maxFilter:
		return fmt.Errorf("cell: spec: a filter of %d bytes", len(s.Filter))
	case len(s.Rlimits) > maxRlimits:
		return fmt.Errorf("cell: spec: %d rlimits", len(s.Rlimits))
	}
	return errors.Join(s.checkStrings(), s.Landlock.check(), s.Identity.check(), s.Watch.Check())
}

func (s *Spec) checkStrings() error {
	for _, list := range [][]string{{s.Path, s.Cwd}, s.Argv, s.Env} {
		for _, v := range list {
			if strings.IndexByte(v, 0) >= 0 {
				return errors.New("cell: spec: a zero byte in path, cwd, argv or env")
			}
		}
	}
	return nil
}

func (l *Landlock) check() error {
	if l.FS == 0 {
		return errors.New("cell: spec: landlock handles no file access")
	}
	if len(l.Rules) > maxRules {
		return fmt.Errorf("cell: spec: %d landlock rules", len(l.Rules))
	}
	for i, r := range l.Rules {
		if !strings.HasPrefix(r.Path, "/") || strings.IndexByte(r.Path, 0) >= 0 {
			return fmt.Errorf("cell: spec: landlock rule %d has no absolute path", i)
		}
	}
	return nil
}

func (i *Identity) check() error {
	// 1<<32-1 means "leave as it is" to the kernel.
	if i != nil && (i.UID < 0 || i.GID < 0 || i.UID >= 1<<32-1 || i.GID >= 1<<32-1) {
		return fmt.Errorf("cell: spec: uid %d, gid %d", i.UID, i.GID)
	}
	return nil
}

// Check returns the fault of limits that nobody should watch.
func (w *Watch) Check() error {
	if w.EveryMS < 0 || w.EveryMS > maxWatchStep || min(w.Memory, w.Processes, w.CPUMS, w.Ceiling, w.Disk) < 0 || len(w.Disks) > maxDisks {
		return errors.New("cell: spec: a watch out of range")
	}
	for _, p := range w.Disks {
		if !strings.HasPrefix(p, "/") || strings.IndexByte(p, 0) >= 0 {
			return errors.New("cell: spec: a disk that is no absolute path")
		}
	}
	for _, p := range []string{
		w.Counters.OOM, w.Counters.PidsMax, w.Counters.PeakBytes, w.Counters.PeakPids, w.Counters.CPUNanos,
		w.Counters.CPUMicros,
	} {
		if _, extra := ExtraIndex(p); p != "" && !extra && (!strings.HasPrefix(p, "/") || strings.IndexByte(p, 0) >= 0) {
			return errors.New("cell: spec: a counter that is neither an absolute path nor one of the room's")
		}
	}
	return nil
}
