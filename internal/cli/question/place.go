package question

import (
	"fmt"

	"palyra"
)

// RulePlace is the file and line of a rule, for people.
func RulePlace(p palyra.PolicyHit) string {
	if p.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}
