package review

import (
	"cmp"
	"context"
	"encoding/json"
	"testing"

	"palyra"
	"palyra/internal/tool"
)

// three is an agent that changed three paths, of which one is meant.
type three struct{}

func (three) Meant(_ context.Context, _ tool.Env, _ string, _ palyra.CallID, paths []palyra.PathText, shown palyra.Digest,
) (meant, all int, list palyra.Digest, err error) {
	if len(paths) > 0 && paths[0] == "missing" {
		return 0, 3, "", palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "nothing there")
	}
	return 1, 3, "sha256:list" + shown, nil
}

// A person's own call is planned; what comes out of an agent is refused, whatever it names, and so is what means nothing.
func TestOnlyAPersonReviews(t *testing.T) {
	for what, c := range map[string]struct {
		args, parent string
		shown        string
		principal    palyra.Principal
		of           palyra.CallID
		reason       palyra.Reason
	}{
		"a person":               {args: `{"agent":"01J9Z8Q2V5T6Y7W8X9A0B1C2D3"}`},
		"a part":                 {args: `{"agent":"01J9Z8Q2V5T6Y7W8X9A0B1C2D3","paths":["a"]}`},
		"what was shown":         {args: `{"agent":"01J9Z8Q2V5T6Y7W8X9A0B1C2D3","digest":"x"}`, shown: "x"},
		"an agent":               {args: `{"agent":"01J9Z8Q2V5T6Y7W8X9A0B1C2D3"}`, parent: "A", reason: palyra.ReasonPermission},
		"who started it":         {args: `{"agent":"01J9Z8Q2V5T6Y7W8X9A0B1C2D3"}`, principal: "agent:claude", reason: palyra.ReasonPermission},
		"without a name":         {args: `{"agent":"01J9Z8Q2V5T6Y7W8X9A0B1C2D3"}`, principal: "agent:local", reason: palyra.ReasonPermission},
		"on a stage":             {args: `{"agent":"01J9Z8Q2V5T6Y7W8X9A0B1C2D3"}`, of: "A", reason: palyra.ReasonPermission},
		"nothing":                {args: `{"agent":"01J9Z8Q2V5T6Y7W8X9A0B1C2D3","paths":["missing"]}`, reason: palyra.ReasonNotFound},
		"a path that is none":    {args: `{"agent":"01J9Z8Q2V5T6Y7W8X9A0B1C2D3","paths":["\"\\xzz\""]}`, reason: palyra.ReasonPathInvalid},
		"an unknown argument":    {args: `{"agent":"01J9Z8Q2V5T6Y7W8X9A0B1C2D3","all":true}`, reason: palyra.ReasonSchemaMismatch},
		"paths that are no list": {args: `{"agent":"01J9Z8Q2V5T6Y7W8X9A0B1C2D3","paths":"a"}`, reason: palyra.ReasonSchemaMismatch},
	} {
		for _, one := range All(three{}) {
			p := palyra.Plan{Tool: one.Spec().Name, Arguments: json.RawMessage(c.args), Staging: palyra.Staging{Of: c.of}}
			err := one.Plan(t.Context(), tool.Env{Parent: palyra.CallID(c.parent), Principal: cmp.Or(c.principal, "agent:user.ann")}, &p)
			bound := len(p.Inputs) == 1 && p.Inputs[0].Digest == "sha256:list"+palyra.Digest(c.shown)
			if c.reason == "" && (err != nil || !bound || p.Detail.Summary == "" || p.Staging.Own() != (p.Tool == palyra.ToolStageKeep)) ||
				c.reason != "" && (err == nil || palyra.AsError(err).Reason != c.reason) {
				t.Errorf("%s, %s: %v, %+v", what, p.Tool, err, p.Staging)
			}
		}
	}
}
