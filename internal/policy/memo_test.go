package policy

import (
	"context"
	"runtime"
	"testing"

	"palyra"
)

// A judgement that is interrupted denies.
func TestMemoEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m, end := engine(t, load(t, permitAll)).Memo(ctx)
	defer end()
	if v, err := m.Case("", write("a")).Judge(nil); err != nil || v.Effect != palyra.Allow {
		t.Fatalf("%+v, %v", v, err)
	}
	cancel()
	for !m.state.stop() { // the watch is told on its own time
		runtime.Gosched()
	}
	if v, err := m.Case("", write("a")).Judge(nil); err != nil || v.Effect != palyra.Deny || len(v.Errors) == 0 {
		t.Errorf("an interrupted judgement says %+v, %v", v, err)
	}
}
