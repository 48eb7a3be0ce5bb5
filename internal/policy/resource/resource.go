// Package resource says what policy knows of the things that actions are about, beyond their names.
//
// A secret that a call uses is known by its binding: by whom else it could be meant stands in the plan, which is what was
// shown and what is on record, so that a replay sees what the judge saw.
package resource

import (
	"strings"

	"github.com/cedar-policy/cedar-go"

	"palyra"
)

// secret is the type of secrets, and of bindings where a call uses one.
const secret = "Secret"

// Named is a resource of which policy knows the name, and of a secret for whom it is: its id is its name and, behind a
// line end, its scope.
func Named(kind, id string) cedar.Entity {
	id, scope, scoped := strings.Cut(id, "\n")
	e := cedar.Entity{UID: cedar.NewEntityUID(cedar.EntityType(kind), cedar.String(id))}
	switch kind {
	case "ToolGroup", "User", "Agent", "Device", "Service":
		return e
	}
	known := cedar.RecordMap{"name": cedar.String(id)}
	if kind == secret && scoped {
		known["secret"], known["scope"] = cedar.String(id), cedar.String(scope)
	}
	e.Attributes = cedar.NewRecord(known)
	return e
}

// Bound is the secret of a binding that a call uses: by which it is meant, for whom it is, where its value goes. A plan
// that does not say that of a binding which it uses is an error: to a rule that forbids a secret it would be none.
func Bound(binding string, p palyra.Plan) (cedar.Entity, error) {
	b, ok := promised(p.Enforcement.Mechanisms, binding)
	if !ok {
		return cedar.Entity{}, palyra.Errorf(palyra.Invalid, palyra.ReasonPolicyError,
			"policy: the plan does not say which secret the binding %s is for", palyra.Clip(binding, 64)).
			WithRemedy("propose the call anew; if that does not help, bind the secret again: palyra vault bind")
	}
	hosts := make([]cedar.Value, 0, len(b.hosts))
	for _, h := range b.hosts {
		hosts = append(hosts, cedar.String(h))
	}
	return cedar.Entity{
		UID: cedar.NewEntityUID(secret, cedar.String(binding)),
		Attributes: cedar.NewRecord(cedar.RecordMap{
			"name": cedar.String(binding), "kind": cedar.String(b.kind), "hosts": cedar.NewSet(hosts...),
			"secret": cedar.String(b.secret), "scope": cedar.String(b.scope),
		}),
	}, nil
}
