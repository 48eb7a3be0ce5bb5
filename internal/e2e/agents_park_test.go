//go:build agents

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"palyra"
	"palyra/client"
)

// claudePark: a run without a window that waits for a person ends, and goes on with the answer, without another question.
// Everything is allowed in the program itself: nothing but the hook holds it.
func claudePark(t *testing.T, b *table) {
	s, m, env := claude(t, b, claudes)
	s.palyraIn("hook", "install", "claude-code", "--park")
	made := filepath.Join(s.work, "parked.txt")
	s.play(m, []scene{{
		name: "write, parked, allowed, resumed", step: toWrite(claudes, s.work, "parked.txt"), want: `File created successfully at: .*`,
		makes: "parked.txt",
	}}, func(ctx context.Context) ([]byte, error) {
		out, err := s.claude(env, "--dangerously-skip-permissions", "--output-format", "json")(ctx)
		var said struct {
			Stop    string `json:"stop_reason"`
			Session string `json:"session_id"`
		}
		if e := json.Unmarshal(out, &said); e != nil || err != nil || said.Stop != "tool_deferred" {
			return out, fmt.Errorf("it did not park: %w", err)
		}
		if _, e := os.Stat(made); e == nil {
			t.Error("it was made before anybody answered")
		}
		if _, err := s.decideNext(ctx, palyra.AnswerAllow); err != nil {
			return out, err
		}
		cmd := s.claude(env, "--dangerously-skip-permissions", "--output-format", "json", "--resume", said.Session)
		return cmd(ctx)
	})
	if page, err := s.client(client.OperatorDoor).Approvals(t.Context(), client.ApprovalFilter{}); err != nil || len(page.Approvals) != 1 {
		t.Errorf("%d questions for one call (%v)", len(page.Approvals), err)
	}
}
