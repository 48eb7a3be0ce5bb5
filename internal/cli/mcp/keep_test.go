package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"palyra"
	"palyra/secrets"
)

// shelf is a vault as far as names go.
type shelf struct {
	versions map[string][]int64
	bound    map[string]secrets.Binding
	refuses  error // to bind
}

func (s *shelf) Secrets(context.Context) (all []secrets.Info, _ error) {
	for name := range s.versions {
		all = append(all, secrets.Info{Scope: secrets.Global, Name: name})
	}
	return all, nil
}

func (s *shelf) PutSecret(_ context.Context, in secrets.Value) (secrets.Info, error) {
	n := int64(1)
	if old := s.versions[in.Name]; len(old) > 0 {
		n = slices.Max(old) + 1
	}
	s.versions[in.Name] = append(s.versions[in.Name], n)
	return secrets.Info{Scope: in.Scope, Name: in.Name, Version: n}, nil
}

func (s *shelf) DeleteSecret(ctx context.Context, _ secrets.Scope, name string, version int64) error {
	s.versions[name] = slices.DeleteFunc(s.versions[name], func(n int64) bool { return n == version })
	if len(s.versions[name]) == 0 {
		delete(s.versions, name)
	}
	return ctx.Err()
}

func (s *shelf) Bindings(context.Context) ([]secrets.Binding, error) {
	return slices.Collect(maps.Values(s.bound)), nil
}

func (s *shelf) BindSecret(_ context.Context, b secrets.Binding) (secrets.Binding, error) {
	if s.refuses == nil {
		s.bound[b.Name] = b
	}
	return b, s.refuses
}

func (s *shelf) UnbindSecret(ctx context.Context, name string) error {
	delete(s.bound, name)
	return ctx.Err()
}

// TestKeepTakesNobodysName holds that a secret or a binding of the same name is neither given another value nor another
// use, and that what was done is taken back whole.
func TestKeepTakesNobodysName(t *testing.T) {
	want := secrets.Binding{
		Name: "up-TOKEN", Secret: "up-TOKEN", Scope: secrets.Global, Kind: secrets.Upstream, Place: "Authorization", Hosts: []string{"h:443"},
		Env: "TOKEN", Tools: []palyra.ToolName{"mcp.up"},
	}
	made, elsewhere := want, want
	made.CreatedBy, made.Workspaces = "user:ada", []string{}
	elsewhere.Hosts = []string{"other:443"}
	one := map[string][]int64{"up-TOKEN": {1}}
	for what, c := range map[string]struct {
		versions map[string][]int64
		bound    map[string]secrets.Binding
		refuses  error
		over     Over
		works    bool
	}{
		"nothing there":                    {works: true},
		"a secret":                         {versions: one, over: Same},
		"a secret, in its place":           {versions: one, over: Secret, works: true},
		"the same, in its place":           {versions: one, bound: map[string]secrets.Binding{"up-TOKEN": made}, over: Secret, works: true},
		"elsewhere, in its place":          {versions: one, bound: map[string]secrets.Binding{"up-TOKEN": elsewhere}, over: Secret},
		"a binding to elsewhere":           {versions: one, bound: map[string]secrets.Binding{"up-TOKEN": elsewhere}, over: Same},
		"a binding of another secret":      {bound: map[string]secrets.Binding{"up-TOKEN": {Name: "up-TOKEN", Secret: "x"}}, over: Same},
		"the same, cut off":                {versions: one, bound: map[string]secrets.Binding{"up-TOKEN": made}, over: Same, works: true},
		"the same, where it is not wanted": {versions: one, bound: map[string]secrets.Binding{"up-TOKEN": made}},
		"it cannot be bound":               {refuses: errors.New("no")},
	} {
		s := &shelf{map[string][]int64{}, map[string]secrets.Binding{}, c.refuses}
		maps.Copy(s.bound, c.bound)
		for name, all := range c.versions {
			s.versions[name] = slices.Clone(all)
		}
		before := fmt.Sprint(s.versions, s.bound)
		ctx, stop := context.WithCancel(t.Context())
		info, back, err := Keep(ctx, s, want, palyra.NewSecret([]byte("a value of theirs")), c.over)
		stop()
		if c.works != (err == nil) || c.refuses == nil && err != nil && palyra.AsError(err).Reason != palyra.ReasonExists {
			t.Errorf("%s: %v", what, err)
		}
		if c.works && (!slices.Contains(s.versions["up-TOKEN"], info.Version) || !sameUse(s.bound["up-TOKEN"], want)) {
			t.Errorf("%s: %v %v", what, s.versions, s.bound)
		}
		if err := back(); err != nil {
			t.Errorf("%s: taken back: %v", what, err)
		}
		if after := fmt.Sprint(s.versions, s.bound); after != before {
			t.Errorf("%s: it was %s, and is %s", what, before, after)
		}
	}
}
