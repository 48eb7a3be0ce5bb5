package cells

import (
	"testing"

	"golang.org/x/net/bpf"
)

// Watching is open only to a run whose room bounds it, and only the kind that holds
// up nobody.
func TestFilterWatching(t *testing.T) {
	for _, a := range arches {
		for s, want := range map[Subject]uint32{
			{abi: 7, Room: true, Watch: true}:               answerAllow,
			{abi: 7, Room: true, Watch: true, Polled: true}: answerAllow,
			{abi: 7, Room: true}:                            answerPerm,
			{abi: 7, Watch: true}:                           answerPerm, // without a room there is no bound
			{abi: 7}:                                        answerPerm,
		} {
			prog, err := filter(a, s)
			if err != nil {
				t.Fatal(err)
			}
			vm, err := bpf.NewVM(prog)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"inotify_init", "inotify_init1", "inotify_add_watch", "inotify_rm_watch"} {
				if nr, ok := a.SyscallNames[name]; ok && ask(t, vm, a.ID, uint32(nr)) != want {
					t.Errorf("%s, %+v: %s is answered otherwise than %#x", a.Name, s, name, want)
				}
			}
			for _, name := range []string{"fanotify_init", "fanotify_mark"} {
				if nr, ok := a.SyscallNames[name]; ok && ask(t, vm, a.ID, uint32(nr)) != answerPerm {
					t.Errorf("%s, %+v: %s is not refused", a.Name, s, name)
				}
			}
		}
	}
}
