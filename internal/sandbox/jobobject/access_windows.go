package jobobject

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
)

// give writes a run's access into the access lists of directories.
func give(entries []access) error {
	for len(entries) > 0 {
		n := 1
		for n < len(entries) && entries[n].path == entries[0].path {
			n++
		}
		if err := giveOne(entries[:n]); err != nil {
			return fmt.Errorf("access to %s: %w", entries[0].path, err)
		}
		entries = entries[n:]
	}
	return nil
}

// giveOne merges entries into the list of one directory, which must be at its path without links.
func giveOne(entries []access) error {
	path := entries[0].path
	if real, err := filepath.EvalSymlinks(path); err != nil || !strings.EqualFold(real, path) {
		return errors.Join(fmt.Errorf("it is not there, or behind a link: %q", real), err)
	}
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return err
	}
	old, _, err := sd.DACL()
	if err != nil {
		return err
	}
	var add []windows.EXPLICIT_ACCESS
	for _, e := range entries {
		sid, err := windows.StringToSid(e.sid)
		if err != nil {
			return err
		}
		add = append(add, windows.EXPLICIT_ACCESS{
			AccessPermissions: windows.ACCESS_MASK(e.rights), AccessMode: windows.GRANT_ACCESS, Inheritance: uint32(e.inherit),
			Trustee: windows.TRUSTEE{
				TrusteeForm: windows.TRUSTEE_IS_SID, TrusteeType: windows.TRUSTEE_IS_UNKNOWN,
				TrusteeValue: windows.TrusteeValueFromSID(sid),
			},
		})
	}
	acl, err := windows.ACLFromEntries(add, old)
	if err != nil {
		return err
	}
	if err := windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION, nil, nil, acl, nil); err != nil {
		return err
	}
	if !entries[0].low {
		return nil
	}
	return label(path)
}

// label makes a directory writable for programs of low integrity.
func label(path string) error {
	sd, err := windows.SecurityDescriptorFromString(lowLabel)
	if err != nil {
		return err
	}
	sacl, _, err := sd.SACL()
	if err != nil {
		return err
	}
	return windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.LABEL_SECURITY_INFORMATION, nil, nil, nil, sacl)
}
