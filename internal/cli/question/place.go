package question

import (
	"fmt"

	"palyra"
)

func RulePlace(p palyra.PolicyHit) string {
	if p.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}
