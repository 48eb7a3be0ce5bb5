package pack

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// rows is a table of bases in one transaction.
type rows struct {
	texts map[int64][]byte
	done  []func(bool)
	fresh []int64
}

func (r *rows) Get(query string, args []any, dest ...any) error {
	if strings.HasPrefix(query, "SELECT COALESCE(MAX(id), 0) + 1 FROM bases") {
		*dest[0].(*int64) = int64(len(r.texts)) + 1
		return nil
	}
	text, ok := r.texts[args[0].(int64)]
	if !ok {
		return sql.ErrNoRows
	}
	*dest[0].(*[]byte) = text
	return nil
}

func (r *rows) Exec(_ string, args ...any) (int64, error) {
	r.texts[args[0].(int64)] = args[1].([]byte)
	r.fresh = append(r.fresh, args[0].(int64))
	return 1, nil
}

func (r *rows) OnDone(f func(bool)) { r.done = append(r.done, f) }

func (r *rows) end(committed bool) {
	for _, f := range r.done {
		f(committed)
	}
	if !committed {
		for _, id := range r.fresh {
			delete(r.texts, id)
		}
	}
	r.done, r.fresh = nil, nil
}

// alike is the n-th of texts that differ in little.
func alike(n int) []byte {
	r := rand.New(rand.NewPCG(7, 7))
	var b strings.Builder
	fmt.Fprintf(&b, `{"call":"%026d","plan":[`, n)
	for range 300 {
		fmt.Fprintf(&b, `"%x",`, r.Uint64())
	}
	payload := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "statement %d of %x", n, r.Uint64()))
	fmt.Fprintf(&b, `0],"payload":"%s","time":%d}`, payload, n*n)
	return []byte(b.String())
}

// Texts that are alike are small from the second on, and come back as they were,
// also for somebody who has only the table.
func TestShelf(t *testing.T) {
	s, tx := NewShelf("bases"), &rows{texts: map[int64][]byte{}}
	var stored [][]byte
	for n := range 20 {
		blob, err := s.Pack("kind", alike(n)).Blob(tx)
		if err != nil {
			t.Fatal(err)
		}
		tx.end(true)
		stored = append(stored, blob)
	}
	if len(tx.texts) != 1 || len(stored[0]) < 1000 || len(stored[1]) > 200 || len(stored[19]) > 200 {
		t.Errorf("%d bases, texts of %d, %d and %d bytes", len(tx.texts), len(stored[0]), len(stored[1]), len(stored[19]))
	}
	for _, reader := range []*Shelf{s, NewShelf("bases")} {
		for n, b := range stored {
			if got, err := reader.Text(tx, b); err != nil || string(got) != string(alike(n)) {
				t.Fatalf("text %d: %.80q, %v", n, got, err)
			}
		}
	}
}

// A base counts when it is committed, not before: what is undone is kept again, and
// beside a transaction that keeps it others do without.
func TestBaseThatIsUndone(t *testing.T) {
	s, tx := NewShelf("bases"), &rows{texts: map[int64][]byte{}}
	first, second := s.Pack("kind", alike(1)), s.Pack("kind", alike(2))
	if _, err := first.Blob(tx); err != nil {
		t.Fatal(err)
	}
	if b, err := second.Blob(tx); err != nil || b[0] != lightVersion {
		t.Fatalf("%q, %v", b[:1], err)
	}
	if b, err := s.Pack("kind", alike(3)).Blob(&rows{}); err != nil || b[0] != version {
		t.Fatalf("against a base that is not there yet: %q, %v", b[:1], err)
	}
	tx.end(false)
	b, err := s.Pack("kind", alike(4)).Blob(tx)
	tx.end(true)
	if err != nil || b[0] != lightVersion || len(tx.texts) != 1 {
		t.Fatalf("%q, %v, %d bases", b[:1], err, len(tx.texts))
	}
	if got, err := s.Text(tx, b); err != nil || string(got) != string(alike(4)) {
		t.Errorf("%.80q, %v", got, err)
	}
}

// Texts with nothing in common leave no base behind.
func TestNothingInCommon(t *testing.T) {
	s, tx := NewShelf("bases"), &rows{texts: map[int64][]byte{}}
	for n := range 100 {
		r := rand.New(rand.NewPCG(uint64(n), 1))
		text := fmt.Appendf(nil, "{%x%x%x%x%x}", r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64())
		if b, err := s.Pack(fmt.Sprint(n%80), text).Blob(tx); err != nil || b[0] == lightVersion {
			t.Fatalf("%q, %v", b, err)
		}
		tx.end(true)
	}
	if len(tx.texts) != 0 || len(s.kinds) > maxKinds {
		t.Errorf("%d bases, %d kinds", len(tx.texts), len(s.kinds))
	}
}

// What is packed against a base that was changed, or is not there, is not read as
// something else.
func TestChangedBase(t *testing.T) {
	s, tx := NewShelf("bases"), &rows{texts: map[int64][]byte{}}
	_ = s.Pack("kind", alike(1))
	b, err := s.Pack("kind", alike(2)).Blob(tx)
	if err != nil {
		t.Fatal(err)
	}
	tx.end(true)
	if _, err := Text(b); err == nil {
		t.Error("read without its base")
	}
	tx.texts[1] = Pack([]byte(strings.Replace(string(alike(1)), "plan", "plam", 1)))
	if got, err := NewShelf("bases").Text(tx, b); !errors.Is(err, errBase) {
		t.Errorf("%.80q, %v", got, err)
	}
	delete(tx.texts, 1)
	if got, err := NewShelf("bases").Text(tx, b); !errors.Is(err, errBase) {
		t.Errorf("%.80q, %v", got, err)
	}
}

// Edits that a stranger wrote are refused or make some text, of bounded length.
func FuzzEdits(f *testing.F) {
	b := newBase(alike(1)).index()
	f.Add(b.pack(alike(2))[sumSize:], alike(2))
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, edits, text []byte) {
		for _, kind := range []byte{deltaVersion, lightVersion} {
			if got, err := b.text(kind, append(b.sum[:sumSize:sumSize], edits...)); err == nil && len(got) > 2*most {
				t.Errorf("%d bytes", len(got))
			}
		}
		if len(text) > most {
			return
		}
		if got, err := b.text(lightVersion, b.pack(text)); err != nil || string(got) != string(text) {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	})
}

// A base that only half fits gives way to a text that fits better.
func TestABetterBase(t *testing.T) {
	s, tx := NewShelf("bases"), &rows{texts: map[int64][]byte{}}
	var last []byte
	for n := range 6 {
		text := string(alike(n))
		if n > 1 {
			text = text[:len(text)/2] + strings.Repeat(string(alike(0)[3000:3400]), 2) + fmt.Sprintf("%x", rand.New(rand.NewPCG(9, 9)).Perm(400))
		}
		var err error
		if last, err = s.Pack("kind", []byte(text)).Blob(tx); err != nil {
			t.Fatal(err)
		}
		tx.end(true)
		if got, err := s.Text(tx, last); err != nil || string(got) != text {
			t.Fatalf("text %d: %v", n, err)
		}
	}
	if len(tx.texts) != 2 || len(last) > 200 {
		t.Errorf("%d bases, the last text in %d bytes", len(tx.texts), len(last))
	}
}

// A text that an earlier version packed can be read for ever.
func TestGoldenOfEarlierEdits(t *testing.T) {
	raw, err := base64.StdEncoding.DecodeString("zVd6JNXvYtKUAXUHYmBQZU8rBs/oaiYzAAIAAP//")
	if err != nil {
		t.Fatal(err)
	}
	got, err := newBase([]byte(golden)).text(deltaVersion, raw)
	if want := strings.Replace(golden, "echo", "fs.read", 1); err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
}

// The same for the form of today.
func TestGoldenOfEdits(t *testing.T) {
	b := newBase([]byte(golden)).index()
	for text, was := range map[string]string{
		strings.Replace(golden, "echo", "fs.read", 1):  "zVd6JNXvYtKUAXUHAQ4AACUHZnMucmVhZCljAA==",
		golden + strings.Repeat("0123456789abcdef", 3): "zVd6JNXvYtLBAXIHAQQAAIwBGAASNFZ4mrze8BI0VniavN7wEjRWeJq83gFm",
		golden + strings.Repeat("what is long is compressed. ", 30): "zVd6JNXvYtLZB3IHAuyTwQ1AERAF919+HVuBnoQNEqxYiSYUpizRgQL29A7vNpkBWN/" +
			"+Z7QDk2DmGu46Lq2TCHmD+ikXdeKthxMAAP//",
	} {
		raw, err := base64.StdEncoding.DecodeString(was)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := b.text(lightVersion, raw); err != nil || string(got) != text {
			t.Errorf("%q, %v; packed now: %s", got, err, base64.StdEncoding.EncodeToString(b.pack([]byte(text))))
		}
	}
}

// Property: expanded undoes squeeze, and no input of it does harm.
func FuzzSqueeze(f *testing.F) {
	f.Add([]byte("sha256:0123456789abcdef0123456789abcde and more"))
	f.Add(bytes.Repeat([]byte("text"), longText))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > most {
			return
		}
		if got, err := expanded(b); err == nil && len(got) > 2*most {
			t.Errorf("%d bytes", len(got))
		}
		if got, err := expanded(squeeze(nil, b)); err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%q became %q, %v", b, got, err)
		}
	})
}
