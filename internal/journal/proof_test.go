package journal

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/canon"
)

func TestProofs(t *testing.T) {
	f := newFixture(t)
	for _, n := range []int{1, 1, 1, 4, 250, 3, 300} {
		f.fill(t, n)
		head, _ := f.Head(t.Context())
		for seq := int64(1); seq <= head.Size; seq += 1 + head.Size/20 {
			if p := checkProof(t, f, seq); p.Entry.Seq != seq || p.Index != seq-1 || p.Checkpoint != head.Note {
				t.Errorf("entry %d: %+v", seq, p)
			}
		}
		checkProof(t, f, head.Size)
	}
	for _, seq := range []int64{-1, 0, 561, 1 << 62} {
		if _, err := f.Proof(t.Context(), seq); palyra.CodeOf(err) != palyra.NotFound {
			t.Errorf("entry %d: %v", seq, err)
		}
	}
}

// A proof of an entry that was changed is not given.
func TestProofOfAChangedEntry(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 300)
	db := f.raw(t)
	mustExec(t, db, "UPDATE journal_entries SET entry = CAST(substr(entry, 1, length(entry)-1) || '~' AS BLOB) WHERE seq = 5")
	mustExec(t, db, "DELETE FROM journal_entries WHERE seq = 9")
	mustExec(t, db, "UPDATE journal_entries SET entry = substr(entry, 1, length(entry)-1) WHERE seq = 297")
	for _, seq := range []int64{5, 9, 297} {
		if _, err := f.Proof(t.Context(), seq); palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
			t.Errorf("entry %d: %v", seq, err)
		}
	}
	checkProof(t, f, 6)
	mustExec(t, db, "DELETE FROM journal_tiles")
	if _, err := f.Proof(t.Context(), 6); palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
		t.Errorf("without tiles: %v", err)
	}
}

// Every byte of a compact proof matters.
func TestEveryByteOfAProof(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 20)
	raw, err := canon.JSON(checkProof(t, f, 13))
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for _, flip := range []byte{1, 0x20} {
			other := bytes.Clone(raw)
			other[i] ^= flip
			if v, err := canon.FromJSON(other); err == nil {
				if was, _ := canon.FromJSON(raw); bytes.Equal(v, was) {
					continue // another spelling of the same JSON value
				}
			}
			if r, err := VerifyProof(other, f.keys()); err == nil {
				t.Errorf("byte %d (%q to %q): %+v", i, raw[i], other[i], r)
			}
		}
	}
	for i := range raw {
		if _, err := VerifyProof(raw[:i], f.keys()); err == nil {
			t.Errorf("cut to %d bytes and taken", i)
		}
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	r, err := VerifyProof(pretty.Bytes(), f.keys())
	mustVerify(t, r, err)
}

func TestProofRefused(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 20)
	good := checkProof(t, f, 13)
	other := checkProof(t, f, 14)
	edit := func(do func(*Proof)) []byte {
		p := good
		p.Hashes = append([]palyra.Digest{}, good.Hashes...)
		do(&p)
		raw, err := canon.JSON(p)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	same := edit(func(*Proof) {})
	for name, raw := range map[string][]byte{
		"empty":           nil,
		"not JSON":        []byte("x"),
		"not an object":   []byte("[]"),
		"a field more":    append(same[:len(same)-1:len(same)-1], `,"more":1}`...),
		"a field less":    []byte(strings.Replace(string(same), `"index":12,`, "", 1)),
		"a field twice":   append(same[:len(same)-1:len(same)-1], `,"size":20}`...),
		"another case":    []byte(strings.Replace(string(same), `"leaf"`, `"LEAF"`, 1)),
		"more after it":   append(bytes.Clone(same), "{}"...),
		"too long":        append(bytes.Clone(same), bytes.Repeat([]byte(" "), maxProof)...),
		"another format":  edit(func(p *Proof) { p.Format = "x" }),
		"another entry":   edit(func(p *Proof) { p.Entry = other.Entry }),
		"another index":   edit(func(p *Proof) { p.Index = 13 }),
		"negative index":  edit(func(p *Proof) { p.Index, p.Entry.Seq = -1, 0 }),
		"another size":    edit(func(p *Proof) { p.Size = 19 }),
		"another leaf":    edit(func(p *Proof) { p.Leaf = other.Leaf }),
		"a hash less":     edit(func(p *Proof) { p.Hashes = p.Hashes[1:] }),
		"a hash more":     edit(func(p *Proof) { p.Hashes = append(p.Hashes, p.Leaf) }),
		"no hashes":       edit(func(p *Proof) { p.Hashes = nil }),
		"a hash changed":  edit(func(p *Proof) { p.Hashes[0] = p.Leaf }),
		"a hash in bits":  edit(func(p *Proof) { p.Hashes[0] = p.Hashes[0][:20] }),
		"an upper hash":   edit(func(p *Proof) { p.Hashes[0] = palyra.Digest(strings.ToUpper(string(p.Hashes[0]))) }),
		"another head":    edit(func(p *Proof) { p.Checkpoint = signed(t, newSigner(testOrigin, 9), sampleHead().text()) }),
		"no head":         edit(func(p *Proof) { p.Checkpoint = "" }),
		"entry of a list": []byte(strings.Replace(string(same), `"entry":{`, `"entry":[],"x":{`, 1)),
	} {
		r, err := VerifyProof(raw, f.keys())
		if err == nil || r.Problem == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if _, err := VerifyProof(same, nil); palyra.AsError(err).Reason != palyra.ReasonUnknownKey {
		t.Errorf("without keys: %v", err)
	}
}

func FuzzProof(f *testing.F) {
	x := newFixture(f)
	x.fill(f, 20)
	raw, err := canon.JSON(checkProof(f, x, 13))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"checkpoint":"","entry":{},"format":"","hashes":[],"index":0,"leaf":"","size":0}`))
	keys := x.keys()
	want, err := canon.FromJSON(raw)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, other []byte) {
		if _, err := VerifyProof(other, keys); err == nil {
			if got, _ := canon.FromJSON(other); !bytes.Equal(got, want) {
				t.Errorf("forged: %s", other)
			}
		}
	})
}
