package jobobject

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/windows"
)

// makeToken makes a run's token from the daemon's.
func makeToken(p tokenPlan) (windows.Token, error) {
	var own windows.Token
	const access = windows.TOKEN_DUPLICATE | windows.TOKEN_ASSIGN_PRIMARY | windows.TOKEN_QUERY | windows.TOKEN_ADJUST_DEFAULT
	if err := windows.OpenProcessToken(windows.CurrentProcess(), access, &own); err != nil {
		return 0, fmt.Errorf("token: %w", err)
	}
	defer func() { _ = own.Close() }()
	deny, restrict, err := lists(own, p)
	if err != nil {
		return 0, fmt.Errorf("token: %w", err)
	}
	t, err := restrictToken(own, p.flags, deny, restrict)
	if err != nil {
		return 0, fmt.Errorf("token: %w", err)
	}
	if err := finishToken(t, own, p); err != nil {
		return 0, errors.Join(fmt.Errorf("token: %w", err), t.Close())
	}
	return t, nil
}

// lists are the SIDs that count for denying only, and those that restrict. Groups
// that the user is not in cannot be denied to it.
func lists(own windows.Token, p tokenPlan) (deny, restrict []windows.SIDAndAttributes, err error) {
	groups, err := own.GetTokenGroups()
	if err != nil {
		return nil, nil, err
	}
	for _, g := range groups.AllGroups() {
		text := g.Sid.String()
		switch {
		case p.logon && g.Attributes&windows.SE_GROUP_LOGON_ID == windows.SE_GROUP_LOGON_ID:
			restrict = append(restrict, windows.SIDAndAttributes{Sid: g.Sid})
		case slices.Contains(p.deny, text):
			deny = append(deny, windows.SIDAndAttributes{Sid: g.Sid})
		}
	}
	for _, s := range p.restrict {
		sid, err := windows.StringToSid(s)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", s, err)
		}
		restrict = append(restrict, windows.SIDAndAttributes{Sid: sid})
	}
	return deny, restrict, nil
}

// finishToken gives a token its default access list and its integrity, which comes
// last, and checks that it is what it should be.
func finishToken(t, own windows.Token, p tokenPlan) error {
	user, err := own.GetTokenUser()
	if err != nil {
		return err
	}
	sd, err := windows.SecurityDescriptorFromString(defaultDACL(user.User.Sid.String(), p.owner))
	if err != nil {
		return err
	}
	acl, _, err := sd.DACL()
	if err != nil {
		return err
	}
	if err := setDefaultDACL(t, acl); err != nil {
		return err
	}
	level, err := windows.StringToSid(p.integrity)
	if err != nil {
		return err
	}
	if err := setIntegrity(t, level); err != nil {
		return err
	}
	if is, err := t.IsRestricted(); err != nil || !is {
		return errors.Join(errors.New("the token is not restricted"), err)
	}
	return nil
}
