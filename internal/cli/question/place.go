package question

import (
	"fmt"

	"palyra"
)

// RulePlace is where a rule stands, for people.
func RulePlace(p palyra.PolicyHit) string {
	if p.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}
