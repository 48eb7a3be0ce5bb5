package skills

import (
	"bytes"
	"testing"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/skill"
)

func TestUploads(t *testing.T) {
	whole := bytes.Repeat([]byte("palyra"), 1000)
	digest := string(palyra.SumBytes(whole))
	part := func(from, to int) *v1.InstallSkillRequest {
		return &v1.InstallSkillRequest{Part: whole[from:to], Offset: int64(from), Size: int64(len(whole)), Digest: digest}
	}
	var u uploads
	for at := 0; at < len(whole); at += 1000 {
		raw, err := u.take("user:ann", part(at, at+1000))
		if last := at+1000 == len(whole); err != nil || (raw != nil) != last || last && !bytes.Equal(raw, whole) {
			t.Fatalf("%d: %v", at, err)
		}
	}
	if raw, err := u.take("user:ann", part(0, len(whole))); err != nil || !bytes.Equal(raw, whole) {
		t.Error("in one piece:", err)
	}
	refuse := func(what string, by palyra.Principal, req *v1.InstallSkillRequest) {
		t.Helper()
		if raw, err := u.take(by, req); raw != nil || palyra.CodeOf(err) != palyra.Invalid || palyra.AsError(err).Remedy == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	refuse("a part of nothing", "user:ann", part(1000, 2000))
	begin := func() {
		if _, err := u.take("user:ann", part(0, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	begin()
	refuse("another's", "user:bob", part(1000, 2000))
	refuse("a gap", "user:ann", part(2000, 3000))
	refuse("the same again", "user:ann", part(500, 1000))
	other := part(1000, 2000)
	other.Digest = "sha256:0"
	refuse("another package", "user:ann", other)
	for _, bad := range []*v1.InstallSkillRequest{
		{},
		{Part: []byte("x"), Size: -1},
		{Part: []byte("x"), Size: skill.MaxPackage + 1},
		{Size: 5},
		{Part: []byte("xx"), Size: 1},
		{Part: []byte("x"), Offset: -1, Size: 2},
		{Part: make([]byte, skill.MaxPart+1), Size: skill.MaxPackage},
	} {
		refuse("nonsense", "user:ann", bad)
	}
	wrong := part(0, len(whole))
	wrong.Digest = string(palyra.SumBytes(nil))
	if _, err := u.take("user:ann", wrong); palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
		t.Error(err)
	}
}
