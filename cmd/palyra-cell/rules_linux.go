package main

import (
	"errors"

	"palyra/internal/cell"
	"palyra/internal/cell/ruleset"
)

// complete makes the ruleset that want asks for.
func complete(r *ruleset.Set, want *cell.Landlock) failure {
	err := r.Complete(want)
	if f := new(ruleset.Fault); errors.As(err, &f) {
		return failure{step: "landlock", errno: number32(f.Err), text: f.What}
	}
	return failure{}
}
