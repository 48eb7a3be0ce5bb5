package vault

import (
	"strings"
	"testing"

	"palyra"
	"palyra/internal/mask"
	"palyra/secrets"
)

const awsSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

// What signs requests of AWS must be a key of AWS: when it is put, when it is bound, and when it is used. No refusal has
// anything of the value, and the parts of a key are masked like the whole.
func TestAWSKeys(t *testing.T) {
	h := newHouse(t, t.TempDir())
	h.Hosts = func(hosts []string) ([]string, error) { return hosts, nil }
	m := new(mask.Masker)
	h.Known = m
	b := secrets.Binding{Name: "photos", Secret: "aws", Kind: secrets.SigV4, Place: "eu-west-1/s3", Hosts: []string{"s3.example:443"}}
	use := func() ([]secrets.Binding, error) {
		return h.Usable(t.Context(), palyra.Proposal{Tool: palyra.ToolProcessRun}, "/w", []string{"photos"})
	}
	refused := func(what string, err error) {
		t.Helper()
		if e := palyra.AsError(err); err == nil || e.Code != palyra.Invalid || e.Remedy == "" || strings.Contains(err.Error(), "secretive") {
			t.Errorf("%s: %v", what, err)
		}
	}
	h.put("aws", "some secretive token of another kind")
	_, err := h.Bind(t.Context(), b, ada)
	refused("bind", err)
	h.ok(h.Delete(t.Context(), secrets.Global, "aws", 0, ada))
	_, err = h.Bind(t.Context(), b, ada)
	h.ok(err)
	for _, bad := range []string{
		"some secretive token", "AKIAIOSFODNN7EXAMPLE:", `{"access_key_id": "secretive"}`, `{"secretive": `, "a b:" + awsSecret,
		"ASIAIOSFODNN7EXAMPLE:" + awsSecret, `{"AccessKeyId": "AKIAIOSFODNN7EXAMPLE", "SecretAccessKey": "secretive\nof two lines"}`,
	} {
		_, err = h.Put(t.Context(), secrets.Value{Scope: secrets.Global, Name: "aws", Value: text(bad)}, ada)
		refused(bad, err)
	}
	if have, err := use(); err != nil || len(have) != 0 {
		t.Errorf("nothing is there: %v, %v", have, err)
	}
	for _, good := range []string{
		"AKIAIOSFODNN7EXAMPLE:" + awsSecret, `{"AccessKeyId": "AKIAIOSFODNN7EXAMPLE", "SecretAccessKey": "` + awsSecret + `"}`,
		` {"access_key_id": "ASIAIOSFODNN7EXAMPLE", "secret_access_key": "` + awsSecret + `", "session_token": "the-token-of-a-session"}`,
	} {
		h.put("aws", good)
		if have, err := use(); err != nil || len(have) != 1 {
			t.Errorf("%v, %v", have, err)
		}
	}
	if !m.Has("x "+awsSecret) || !m.Has("the-token-of-a-session") {
		t.Error("parts of a key are not masked")
	}
	for _, place := range []string{"", "s3", "eu-west-1/", "EU/s3", "eu-west-1/s3/x"} {
		bad := b
		bad.Place = place
		if err := bad.Check(); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%q: %v", place, err)
		}
	}
	b.Env = "AWS_KEY"
	if err := b.Check(); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("a variable: %v", err)
	}
}
