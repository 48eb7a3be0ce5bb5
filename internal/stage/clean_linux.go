package stage

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/change"
)

// clean takes off a file of the stage what is the overlay's, set-id bits, and the attributes and access lists that it
// has not from the workspace: nobody is asked about those, and they outlive a change of modes. It
// reports whether the file was there before the run.
func (r *reader) clean(p string, st *unix.Stat_t) (had bool, err error) {
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return false, nil
	}
	err = beneath.InParent(r.upper, p, func(dir int, name string) error {
		mode := st.Mode & 0o777
		if st.Mode&0o6000 != 0 {
			r.refuse(p, "set-id bits")
		}
		file := beneath.ProcName(dir, name)
		all, err := beneath.Attributes(file)
		if err != nil {
			return err
		}
		had = slices.Contains(all, xattrFrom)
		own := slices.DeleteFunc(all, func(x string) bool { return !strings.HasPrefix(x, xattrs) && r.known(p, x, file) })
		if r.looks || len(own) == 0 && st.Mode&0o6000 == 0 {
			return nil
		}
		if slices.ContainsFunc(own, func(x string) bool { return !strings.HasPrefix(x, xattrs) }) {
			r.out.Refused = change.AppendShort(r.out.Refused, change.Quoted(p)+": extended attributes")
		}
		if err := beneath.ChmodAt(dir, name, mode|0o600); err != nil {
			return err
		}
		for _, x := range own {
			if err := unix.Lremovexattr(file, x); err != nil {
				return err
			}
		}
		return beneath.ChmodAt(dir, name, mode)
	})
	return had, err
}

// known reports whether an attribute of a file of the stage is the workspace's: that of the file that is there, or of a
// new file in that directory. What only a privileged user can set is the system's.
func (r *reader) known(p, x, file string) bool {
	if !strings.HasPrefix(x, "user") && x != beneath.AccessList {
		return true
	}
	now, err := beneath.Attribute(file, x)
	if err != nil {
		return false
	}
	same := false
	_ = beneath.InParent(r.ws, p, func(dir int, name string) error {
		was, err := beneath.Attribute(beneath.ProcName(dir, name), x)
		same = err == nil && bytes.Equal(was, now)
		if !same && x == beneath.AccessList {
			above, err := beneath.Attribute(beneath.ProcName(dir, "."), beneath.DefaultList)
			same = err == nil && slices.Equal(beneath.Named(above), beneath.Named(now))
		}
		return nil
	})
	return same
}

// apart gives a file of the stage that has other names there content of its own: in the workspace, who writes to one
// name would change what is under the other.
func (r *reader) apart(p string, st *unix.Stat_t) error {
	if st.Nlink < 2 || st.Mode&unix.S_IFMT != unix.S_IFREG || r.looks {
		return nil
	}
	work, err := r.open(Work)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(work) }()
	return beneath.InParent(r.upper, p, func(dir int, name string) error {
		now, missing, err := beneath.LookAt(dir, name)
		if err != nil || missing || now.Nlink < 2 { // the others have theirs by now
			return err
		}
		if r.copied += now.Size; r.copied > r.of.limits.Bytes { // holes are filled
			return tooMuch(r.of.limits.Bytes)
		}
		const fresh = "apart"
		if err := beneath.Ignore(unix.Unlinkat(work, fresh, 0), unix.ENOENT); err != nil { // of a daemon that died
			return err
		}
		err = errors.Join(beneath.CopyFile(dir, name, work, fresh, &now), beneath.ChmodAt(dir, name, now.Mode&0o777))
		if err == nil {
			err = unix.Renameat(work, fresh, dir, name)
		}
		if err == nil {
			*st, _, err = beneath.LookAt(dir, name)
		}
		r.files[len(r.files)-1] = file{p, beneath.IdentOf(st)} // which note added
		return err
	})
}

// ownXattrs lists the overlay's attributes of a file.
func ownXattrs(file string) ([]string, error) {
	all, err := beneath.Attributes(file)
	return slices.DeleteFunc(all, func(x string) bool { return !strings.HasPrefix(x, xattrs) }), err
}
