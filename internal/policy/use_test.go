package policy

import (
	"strings"
	"testing"

	"palyra"
	"palyra/secrets"
)

// useSecrets has a call use secrets by bindings, of which its plan says what plans say.
func useSecrets(r *palyra.Request, names ...string) {
	r.Plan.Bindings, r.Plan.Enforcement.Mechanisms = names, nil
	for _, name := range distinct(names) {
		b := secrets.Binding{Name: name, Kind: secrets.Header, Scope: secrets.Global, Secret: name}
		r.Plan.Enforcement.Mechanisms = append(r.Plan.Enforcement.Mechanisms, b.Promise())
	}
}

// A call whose plan does not say which secret a binding is for is not judged: a rule that forbids the secret would
// find none.
func TestASecretThatIsNotSaidIsNotJudged(t *testing.T) {
	for what, mechanisms := range map[string][]string{
		"none": nil, "another's": {secrets.Binding{Name: "other", Kind: secrets.Header, Secret: "s"}.Promise()}, "unreadable": {"binding:db"},
		"cut off": {"binding:db:header:X"},
		"two": {
			secrets.Binding{Name: "db", Kind: secrets.Header, Secret: "s"}.Promise(),
			secrets.Binding{Name: "db", Kind: secrets.Header, Secret: "t"}.Promise(),
		},
	} {
		r := write("a.txt")
		r.Plan.Bindings, r.Plan.Enforcement.Mechanisms = []string{"db"}, mechanisms
		s := &state{bundle: defaults(t), tools: newNames([]string{"palyra.*"})}
		if _, err := s.newCall(r); palyra.AsError(err).Reason != palyra.ReasonPolicyError || !strings.Contains(err.Error(), "binding db") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
