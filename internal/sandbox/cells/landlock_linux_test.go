package cells

import "testing"

func TestHandled(t *testing.T) {
	for abi, want := range map[int]uint64{1: 1<<13 - 1, 2: 1<<14 - 1, 3: 1<<15 - 1, 4: 1<<15 - 1, 5: 1<<16 - 1, 7: 1<<16 - 1} {
		if got := Handled(abi); got != want {
			t.Errorf("abi %d: %#x, want %#x", abi, got, want)
		}
	}
}
