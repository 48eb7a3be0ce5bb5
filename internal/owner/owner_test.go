package owner

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
)

func self() Identity { return Identity{UID: int64(os.Geteuid()), GID: int64(os.Getegid())} }

func TestWhoeverNobodyIs(t *testing.T) {
	for _, id := range []Identity{
		{UID: -1},
		{GID: -1},
		{UID: 1<<32 - 1},
		{GID: 1<<32 - 1},
		{UID: 1 << 40},
		{GID: 1 << 40},
		{Groups: []int{-1}},
		{Groups: make([]int, maxGroups+1)},
	} {
		if err := Do(id, func() error { t.Errorf("%d %d: the work was begun", id.UID, id.GID); return nil }); err == nil {
			t.Errorf("%d %d: no error", id.UID, id.GID)
		}
	}
}

func TestOneselfWorks(t *testing.T) {
	if os.Geteuid() <= 0 && runtime.GOOS != "linux" {
		t.Skip("UNPROVEN HERE: root takes on rights on Linux only, and Windows has no uids")
	}
	ran := false
	if err := Do(self(), func() error { ran = true; return nil }); err != nil || !ran {
		t.Errorf("%v, ran: %t", err, ran)
	}
	want := errors.New("what the work says")
	if err := Do(self(), func() error { return want }); !errors.Is(err, want) {
		t.Error(err)
	}
	if err := Do(self(), func() error { panic("boom") }); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Error(err)
	}
}

// Who is not root is nobody else, and in no group that he asks for.
func TestAnOrdinaryUserIsHimselfOnly(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Log("the run as an ordinary user does this")
		return
	}
	other, root, grouped := self(), Identity{}, self()
	other.UID++
	grouped.Groups = []int{os.Getegid()}
	for _, id := range []Identity{other, root, grouped} {
		err := Do(id, func() error { t.Errorf("%+v: the work was begun", id); return nil })
		if !errors.Is(err, os.ErrPermission) {
			t.Errorf("%+v: %v", id, err)
		}
	}
}
