package dailybytes

import (
	"strings"
	"testing"

	"palyra"
)

// Output beyond the budget stands as its size and digest; a little stays.
func TestOutputThatIsNotKept(t *testing.T) {
	little := palyra.Outcome{Stdout: "ok"}
	if got := WithoutOutput(little); got.Stdout != "ok" || got.Left != nil {
		t.Errorf("%+v", got)
	}
	much := palyra.Outcome{Stdout: strings.Repeat("x", 4096), Stderr: "e", Left: []string{"a"}}
	got := WithoutOutput(much)
	if got.Stdout+got.Stderr != "" || !got.Truncated || len(got.Left) != 3 || len(much.Left) != 1 ||
		got.Left[1] != NotKept+"stdout, 4096 bytes, "+string(palyra.SumBytes([]byte(much.Stdout))) {
		t.Errorf("%+v", got)
	}
}
