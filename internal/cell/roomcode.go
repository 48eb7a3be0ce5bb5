package cell

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"path"
	"strings"

	"palyra/internal/subpath"
)

// The longest lists of a Room.
const (
	maxSeals   = 4096
	maxPrivate = 16
	maxKeep    = 256
	maxMasks   = 256
	maxPath    = 4096
)

// encodeRoom returns r as bytes, in the encoding of a Spec.
func encodeRoom(r *Room) []byte {
	c := coder{out: make([]byte, 0, 4096+len(r.Filter)+64*len(r.Seals))}
	c.room(r)
	return c.out
}

// DecodeRoom reads a Room and checks it.
func DecodeRoom(b []byte) (Room, error) {
	if len(b) > MaxSpec {
		return Room{}, fmt.Errorf("cell: room: %d bytes, more than %d", len(b), MaxSpec)
	}
	var r Room
	c := coder{reading: true, in: b}
	c.room(&r)
	if err := c.end(); err != nil {
		return Room{}, err
	}
	if err := r.Check(); err != nil {
		return Room{}, err
	}
	return r, nil
}

// room walks all fields.
func (c *coder) room(r *Room) {
	if !c.version(&r.Version) {
		return
	}
	c.string(&r.Workspace)
	c.string(&r.Stage)
	c.string(&r.Repository)
	c.string(&r.RepositoryStage)
	list(c, &r.Private, func(c *coder, p *Private) {
		c.string(&p.Path)
		c.int(&p.Mode)
		c.int64(&p.Bytes)
		c.int64(&p.Inodes)
		list(c, &p.Keep, (*coder).string)
	})
	list(c, &r.Seals, func(c *coder, s *Seal) { c.string(&s.Path); c.bool(&s.ReadOnly); c.uint64(&s.Dev); c.uint64(&s.Ino) })
	list(c, &r.Listeners, func(c *coder, d *Listener) { c.bool(&d.UDP); c.addr(&d.Addr); c.string(&d.Path); c.int(&d.Dial) })
	list(c, &r.Hide, (*coder).string)
	list(c, &r.ReadOnly, (*coder).string)
	c.bool(&r.Held)
	list(c, &r.Open, (*coder).string)
	c.int64(&r.Watching.Instances)
	c.int64(&r.Watching.Watches)
	c.string(&r.Range)
	c.rlimits(&r.Rlimits)
	c.landlock(&r.Landlock)
	c.bytes(&r.Filter)
	list(c, &r.Extra, (*coder).string)
	c.int(&r.Copies)
}

// addr walks an address and port as people write them; an invalid one is empty.
func (c *coder) addr(v *netip.AddrPort) {
	var text string
	if v.IsValid() {
		text = v.String()
	}
	c.string(&text)
	if !c.reading || c.err != nil || text == "" {
		return
	}
	var err error
	if *v, err = netip.ParseAddrPort(text); err != nil {
		c.fail(errors.New("cell: room: an invalid address"))
	}
}

// Check returns the fault of a Room that no cell should try to build.
func (r *Room) Check() error {
	switch {
	case r.Version != Version:
		return fmt.Errorf("cell: room: version %d, this cell speaks %d", r.Version, Version)
	case !inRoom(r.Workspace):
		return errors.New("cell: room: the workspace is not a clean absolute path")
	case r.Stage != "" && (!inRoom(r.Stage) || subpath.Touch(r.Stage, r.Workspace)):
		return errors.New("cell: room: the stage is not a clean absolute path beside the workspace")
	case !r.besideFits():
		return errors.New("cell: room: the repository or its stage is not a clean absolute path beside the workspace")
	case len(r.Filter) == 0 || len(r.Filter)%filterSize != 0 || len(r.Filter) > maxFilter:
		return fmt.Errorf("cell: room: a filter of %d bytes", len(r.Filter))
	case len(r.Rlimits) > maxRlimits:
		return fmt.Errorf("cell: room: %d rlimits", len(r.Rlimits))
	case r.Watching != (Watching{}) && !(countable(r.Watching.Instances) && countable(r.Watching.Watches)):
		return errors.New("cell: room: invalid bounds of watching")
	}
	return errors.Join(r.checkPrivate(), r.checkSeals(), r.checkDoors(), r.checkMasks(), r.checkExtra(), r.Landlock.check())
}

// besideFits reports whether the repository beside the workspace can be staged.
func (r *Room) besideFits() bool {
	if r.Repository == "" && r.RepositoryStage == "" {
		return true
	}
	return inRoom(r.Repository) && inRoom(r.RepositoryStage) && r.Stage != "" && r.Stage != r.RepositoryStage &&
		!subpath.Touch(r.Repository, r.Workspace) && !subpath.Touch(r.Repository, r.RepositoryStage)
}

// inRoom reports whether p is a clean absolute path other than the root.
func inRoom(p string) bool {
	return len(p) > 1 && len(p) < maxPath && p[0] == '/' && path.Clean(p) == p && strings.IndexByte(p, 0) < 0
}

// countable reports whether n is a limit that the kernel takes, above zero.
func countable(n int64) bool { return n > 0 && n <= math.MaxInt32 }

const (
	mostMode   = 0o1777
	mostBytes  = 1 << 40 // far above any memory that one room could have
	mostInodes = 1 << 30
)

// checkPrivate refuses private places that lie in one another or in a kept path.
func (r *Room) checkPrivate() error {
	if len(r.Private) > maxPrivate {
		return fmt.Errorf("cell: room: %d private places, more than %d", len(r.Private), maxPrivate)
	}
	for i := range r.Private {
		p := &r.Private[i]
		switch {
		case !inRoom(p.Path):
			return fmt.Errorf("cell: room: private place %d is not a clean absolute path", i)
		case p.Mode < 0 || p.Mode > mostMode || p.Bytes <= 0 || p.Bytes > mostBytes || p.Inodes <= 0 || p.Inodes > mostInodes:
			return fmt.Errorf("cell: room: private place %d is of no size, or of too much", i)
		case len(p.Keep) > maxKeep:
			return fmt.Errorf("cell: room: %d things kept in private place %d, more than %d", len(p.Keep), i, maxKeep)
		}
		for j := range r.Private[:i] {
			if subpath.Touch(p.Path, r.Private[j].Path) {
				return fmt.Errorf("cell: room: private place %d lies in another, or another in it", i)
			}
		}
		if err := p.checkKeep(); err != nil {
			return fmt.Errorf("cell: room: private place %d: %w", i, err)
		}
	}
	return nil
}

func (p *Private) checkKeep() error {
	for i, k := range p.Keep {
		if !inRoom(k) || !subpath.Below(p.Path, k) {
			return fmt.Errorf("kept path %d is not a clean path in it", i)
		}
		for _, other := range p.Keep[:i] {
			if subpath.Touch(k, other) {
				return fmt.Errorf("kept path %d lies in another, or another in it", i)
			}
		}
	}
	return nil
}

// checkSeals also checks that every directory on the way to a sealed path is sealed, and comes
// first: without that the path could be moved away.
func (r *Room) checkSeals() error {
	if len(r.Seals) > maxSeals {
		return fmt.Errorf("cell: room: %d seals, more than %d", len(r.Seals), maxSeals)
	}
	seen := make(map[string]bool, len(r.Seals))
	for i := range r.Seals {
		p := r.Seals[i].Path
		up := path.Dir(p)
		switch {
		case p == "." || !inRoom("/"+p) || p[0] == '/':
			return fmt.Errorf("cell: room: seal %d is not a clean path in the workspace", i)
		case seen[p]:
			return fmt.Errorf("cell: room: seal %d is there twice", i)
		case up != "." && !seen[up]:
			return fmt.Errorf("cell: room: seal %d comes without the directory that it is in", i)
		}
		seen[p] = true
	}
	return nil
}

// maxSocket is the longest path that fits the address of a unix socket.
const maxSocket = 107

func (r *Room) checkDoors() error {
	if len(r.Listeners) > MaxDoors {
		return fmt.Errorf("cell: room: %d doors, more than %d", len(r.Listeners), MaxDoors)
	}
	seen := make(map[Listener]bool, len(r.Listeners))
	for i, d := range r.Listeners {
		if d.Dial != 0 {
			if d != (Listener{Dial: d.Dial}) || d.Dial < -MaxDoors || d.Dial > MaxDoors || seen[d] {
				return fmt.Errorf("cell: room: door %d has no number of its own", i)
			}
			seen[d] = true
			continue
		}
		if d.Path != "" {
			if d.UDP || d.Addr.IsValid() || !inRoom(d.Path) || !strings.HasPrefix(d.Path, "/run/") || len(d.Path) > maxSocket || seen[d] {
				return fmt.Errorf("cell: room: door %d has no path of its own", i)
			}
			seen[d] = true
			continue
		}
		if a := d.Addr.Addr(); !d.Addr.IsValid() || d.Addr.Port() == 0 || a.Zone() != "" || a.Is4In6() || seen[d] {
			return fmt.Errorf("cell: room: door %d has no address of its own", i)
		}
		seen[d] = true
	}
	if r.Range == "" {
		return nil
	}
	p, err := netip.ParsePrefix(r.Range)
	if err != nil || !p.Addr().Is4() || p.Bits() < 8 || p.Masked() != p || p.String() != r.Range {
		return errors.New("cell: room: an invalid range of addresses")
	}
	return nil
}

func (r *Room) checkMasks() error {
	for _, list := range [][]string{r.Hide, r.ReadOnly} {
		if len(list) > maxMasks {
			return fmt.Errorf("cell: room: %d masks, more than %d", len(list), maxMasks)
		}
		for i, p := range list {
			if !inRoom(p) {
				return fmt.Errorf("cell: room: mask %d is not a clean absolute path", i)
			}
		}
	}
	return r.checkOpen()
}

// checkOpen refuses what is open elsewhere than in a workspace that is held, and what comes after something in it, over which it
// would not be laid.
func (r *Room) checkOpen() error {
	if len(r.Open) > maxMasks || len(r.Open) > 0 && !r.Held {
		return fmt.Errorf("cell: room: %d open paths", len(r.Open))
	}
	for i, p := range r.Open {
		if !inRoom(p) || !subpath.Within(r.Workspace, p) {
			return fmt.Errorf("cell: room: open path %d is not a clean path in the workspace", i)
		}
		for _, before := range r.Open[:i] {
			if subpath.Within(p, before) {
				return fmt.Errorf("cell: room: open path %d has an earlier one in it, or is there twice", i)
			}
		}
	}
	return nil
}

func (r *Room) checkExtra() error {
	if len(r.Extra) > MaxExtra {
		return fmt.Errorf("cell: room: %d extra descriptors, more than %d", len(r.Extra), MaxExtra)
	}
	shared := 0
	for i, name := range r.Extra {
		switch name {
		case ExtraCounter:
		case ExtraWorkspace:
			shared++
		default:
			return fmt.Errorf("cell: room: extra descriptor %d is for nothing known", i)
		}
	}
	if shared > 1 || shared > 0 && r.Stage != "" {
		return errors.New("cell: room: more than one stage")
	}
	if r.Copies < 0 || r.Copies > MaxCopies || len(r.Listeners)+r.Copies > MaxDoors || r.Copies > 0 && shared == 0 && r.Stage == "" {
		return fmt.Errorf("cell: room: %d copies of a workspace that cannot be shared so", r.Copies)
	}
	return nil
}
