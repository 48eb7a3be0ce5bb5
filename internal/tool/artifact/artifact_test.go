package artifact

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/tool"
)

const id = palyra.ID("01ARZ3NDEKTSV4RRFFQ69G5FAV")

// shelf is a store with one artifact of session S.
type shelf string

func (s shelf) Read(_ context.Context, session palyra.SessionID, asked palyra.ID, offset, limit int64) ([]byte, int64, error) {
	if session != "S" || asked != id {
		return nil, 0, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "none")
	}
	from := min(offset, int64(len(s)))
	return []byte(s[from:min(int64(len(s)), from+limit)]), int64(len(s)), nil
}

func read(t *testing.T, s shelf, session palyra.SessionID, a map[string]any, most int64) (map[string]any, error) {
	t.Helper()
	raw, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	p := palyra.Plan{Tool: "palyra.artifact.read", Arguments: raw, Limits: palyra.Limits{OutputBytes: most}}
	r := All(s)[0]
	env := tool.Env{Session: session}
	if err := r.Plan(t.Context(), env, &p); err != nil {
		return nil, err
	}
	if p.Detail.Summary == "" {
		t.Error("no summary")
	}
	out, err := r.Run(t.Context(), env, p)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	return m, json.Unmarshal(out, &m)
}

func TestPages(t *testing.T) {
	whole := shelf(strings.Repeat("abcé", 1000))
	for _, limit := range []int{0, 3, 100, 100_000} {
		var all strings.Builder
		for offset, eof := 0.0, false; !eof; {
			a := map[string]any{"artifact_id": id, "offset": offset}
			if limit > 0 {
				a["limit"] = limit
			}
			got, err := read(t, whole, "S", a, 2000)
			if err != nil {
				t.Fatal(err)
			}
			all.WriteString(got["content"].(string))
			offset, eof = got["next_offset"].(float64), got["eof"].(bool)
			if got["artifact_id"] != string(id) || got["size"] != 5000.0 {
				t.Fatalf("%v", got)
			}
		}
		if all.String() != string(whole) {
			t.Errorf("limit %d: %d bytes", limit, all.Len())
		}
	}
}

func TestBase64(t *testing.T) {
	got, err := read(t, "\xff\x00", "S", map[string]any{"artifact_id": id, "encoding": "base64"}, 1000)
	if err != nil || got["content"] != "/wA=" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := read(t, "\xff\x00", "S", map[string]any{"artifact_id": id}, 1000); palyra.AsError(err).Reason != palyra.ReasonMalformedInput {
		t.Error(err)
	}
}

func TestOtherSessionsSeeNothing(t *testing.T) {
	if got, err := read(t, "x", "T", map[string]any{"artifact_id": id}, 1000); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("%v, %v", got, err)
	}
}

func TestBadArguments(t *testing.T) {
	for _, a := range []map[string]any{{"artifact_id": 1}, {"id": "x"}} {
		if _, err := read(t, "x", "S", a, 1000); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%v: %v", a, err)
		}
	}
}
