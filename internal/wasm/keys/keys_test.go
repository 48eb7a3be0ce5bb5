package keys

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"palyra"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
)

func open(t *testing.T) *Store {
	t.Helper()
	engine, err := sqlite.Open(filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), engine, Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return New(db)
}

// TestKeysAreAsInAMap: whatever skills do in turn, each finds what it kept, and nobody else's.
func TestKeysAreAsInAMap(t *testing.T) {
	s := open(t)
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		type name struct{ owner, key string }
		have := map[name]string{}
		owner := rapid.SampledFrom([]string{"a", "b"})
		key := rapid.StringOfN(rapid.SampledFrom([]rune{'a', 'b', '/', 0xff, 0x10ffff}), 1, 4, -1)
		own := func(o string) string { return fmt.Sprintf("%s%d", o, n) }
		r.Repeat(map[string]func(*rapid.T){
			"put": func(r *rapid.T) {
				o, k, v := owner.Draw(r, "owner"), key.Draw(r, "key"), rapid.StringN(0, 5, -1).Draw(r, "value")
				if err := s.Of(own(o)).Put(t.Context(), "", k, []byte(v)); err != nil {
					r.Fatal(err)
				}
				have[name{o, k}] = v
			},
			"delete": func(r *rapid.T) {
				o, k := owner.Draw(r, "owner"), key.Draw(r, "key")
				if err := s.Of(own(o)).Delete(t.Context(), "", k); err != nil {
					r.Fatal(err)
				}
				delete(have, name{o, k})
			},
			"get": func(r *rapid.T) {
				o, k := owner.Draw(r, "owner"), key.Draw(r, "key")
				v, err := s.Of(own(o)).Get(t.Context(), "", k)
				want, ok := have[name{o, k}]
				if err != nil || (v != nil) != ok || string(v) != want {
					r.Fatalf("%q %v, want %q %t", v, err, want, ok)
				}
			},
			"list": func(r *rapid.T) {
				maybe := rapid.OneOf(rapid.Just(""), key)
				o, start, after := owner.Draw(r, "owner"), maybe.Draw(r, "start"), maybe.Draw(r, "after")
				got, err := s.Of(own(o)).List(t.Context(), "", start, after, 3)
				var want []string
				for k := range have {
					if k.owner == o && strings.HasPrefix(k.key, start) && k.key > after {
						want = append(want, k.key)
					}
				}
				slices.Sort(want)
				if err != nil || !slices.Equal(got, want[:min(3, len(want))]) {
					r.Fatalf("%q %v, want %q", got, err, want)
				}
			},
			"": func(r *rapid.T) {
				for _, o := range []string{"a", "b"} {
					names, bytes, err := s.Size(t.Context(), own(o))
					for k, v := range have {
						if k.owner == o {
							names, bytes = names-1, bytes-int64(len(k.key)+len(v))
						}
					}
					if err != nil || names != 0 || bytes != 0 {
						r.Fatalf("%s: %d names and %d bytes too many, %v", o, names, bytes, err)
					}
				}
			},
		})
	})
}

func TestASkillKeepsSoMuch(t *testing.T) {
	s := open(t)
	k := s.Of("a")
	refused := func(err error) {
		t.Helper()
		if e := palyra.AsError(err); err == nil || e.Reason != palyra.ReasonQuotaExceeded || e.Remedy == "" {
			t.Errorf("%v", err)
		}
	}
	value := make([]byte, MaxValue)
	refused(k.Put(t.Context(), "", "k", append(value, 0)))
	for i := range MaxBytes/MaxValue - 1 {
		if err := k.Put(t.Context(), "", fmt.Sprint(i), value); err != nil {
			t.Fatal(err)
		}
	}
	refused(k.Put(t.Context(), "", "more", value))
	if v, err := k.Get(t.Context(), "", "more"); v != nil || err != nil {
		t.Errorf("%d bytes, %v", len(v), err)
	}
	if err := k.Put(t.Context(), "", "0", nil); err != nil { // less than before
		t.Error(err)
	}
	if err := s.Of("b").Put(t.Context(), "", "more", value); err != nil { // another's
		t.Error(err)
	}
	if err := s.db.Write(t.Context(), "test", func(tx *store.Tx) error { return Forget(tx, "a") }); err != nil {
		t.Fatal(err)
	}
	if names, bytes, err := s.Size(t.Context(), "a"); names != 0 || bytes != 0 || err != nil {
		t.Errorf("%d %d %v", names, bytes, err)
	}
	if names, _, err := s.Size(t.Context(), "b"); names != 1 || err != nil {
		t.Errorf("%d %v", names, err)
	}
}
