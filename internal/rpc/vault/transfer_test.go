package vault

import (
	"bytes"
	"os"
	"testing"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/secrets"
)

const whole = "the bytes of an export"

// part is a part of the whole.
func part(from, to int, change ...func(*v1.ImportVaultRequest)) *v1.ImportVaultRequest {
	req := &v1.ImportVaultRequest{
		Part: []byte(whole)[from:to], Offset: int64(from), Size: int64(len(whole)), Digest: string(palyra.SumBytes([]byte(whole))),
	}
	for _, f := range change {
		f(req)
	}
	return req
}

// Parts are taken in order, from one person, of one file; anything else is refused and begins nothing.
func TestPartsOfAnUpload(t *testing.T) {
	dir := t.TempDir()
	u := &uploads{}
	take := func(what string, want palyra.Reason, by palyra.Principal, req *v1.ImportVaultRequest) *upload {
		t.Helper()
		up, err := u.take(dir, by, req)
		if want == "" && err != nil || want != "" && (err == nil || palyra.AsError(err).Reason != want || palyra.AsError(err).Remedy == "") {
			t.Errorf("%s: %v", what, err)
		}
		return up
	}
	bad, lost := palyra.ReasonMalformedInput, palyra.ReasonInterrupted
	take("not begun", lost, "user:ada", part(5, 9))
	take("begun", "", "user:ada", part(0, 5))
	take("a gap", lost, "user:ada", part(6, 9))
	take("another's", lost, "user:bob", part(5, 9))
	take("another file", lost, "user:ada", part(5, 9, func(r *v1.ImportVaultRequest) { r.Digest = string(palyra.SumBytes(nil)) }))
	take("another size", lost, "user:ada", part(5, 9, func(r *v1.ImportVaultRequest) { r.Size++ }))
	for what, f := range map[string]func(*v1.ImportVaultRequest){
		"nothing":     func(r *v1.ImportVaultRequest) { r.Part = nil },
		"too much":    func(r *v1.ImportVaultRequest) { r.Part, r.Size = make([]byte, secrets.MaxPart+1), secrets.MaxPart+9 },
		"before":      func(r *v1.ImportVaultRequest) { r.Offset = -1 },
		"beyond":      func(r *v1.ImportVaultRequest) { r.Offset = int64(len(whole)) - 3 },
		"far beyond":  func(r *v1.ImportVaultRequest) { r.Offset = 1<<63 - 1 },
		"no size":     func(r *v1.ImportVaultRequest) { r.Size = 0 },
		"no digest":   func(r *v1.ImportVaultRequest) { r.Digest = "" },
		"half of one": func(r *v1.ImportVaultRequest) { r.Digest = r.Digest[:20] },
	} {
		take(what, bad, "user:ada", part(5, 9, f))
	}
	take("larger than any", palyra.ReasonInputTooLarge, "user:ada",
		part(5, 9, func(r *v1.ImportVaultRequest) { r.Size = secrets.MaxExport + 1 }))
	if up := take("the next", "", "user:ada", part(5, 9)); up != nil {
		t.Error("it is whole too early")
	}
	up := take("the last", "", "user:ada", part(9, len(whole)))
	if up == nil {
		t.Fatal("it is not whole")
	}
	got := make([]byte, len(whole))
	if _, err := up.file.ReadAt(got, 0); err != nil || !bytes.Equal(got, []byte(whole)) {
		t.Errorf("%q, %v", got, err)
	}
	up.close()
	take("after the last", lost, "user:ada", part(9, len(whole)))
	take("begun again", "", "user:ada", part(0, 5))
	take("by another", "", "user:bob", part(0, 3))
	take("the first has lost its place", lost, "user:ada", part(5, 9))
	u.mu.Lock()
	u.drop(u.now) // as when nothing comes any more
	u.mu.Unlock()
	take("after too long", lost, "user:bob", part(3, 9))
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("there is %v, %v", left, err)
	}
}
