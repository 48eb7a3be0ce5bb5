package policy

import (
	"fmt"
	"strings"

	"palyra"
)

// Problem is one thing wrong with a bundle, and where.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Text   string `json:"text"`
}

// String gives file:line:column and the text.
func (p Problem) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text)
}

// Problems is everything found wrong with a bundle. It is in the chain of the error that Load returns.
type Problems []Problem

// shown bounds how many problems an error text spells out.
const shown = 10

// Error implements error.
func (p Problems) Error() string {
	var lines []string
	for i, one := range p {
		if i == shown {
			lines = append(lines, fmt.Sprintf("and %d more", len(p)-shown))
			break
		}
		lines = append(lines, one.String())
	}
	return strings.Join(lines, "; ") // errors are told on one line
}

// bundleError makes the error a caller sees.
func bundleError(p ...Problem) error {
	all := Problems(p)
	return palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "policy bundle: %s", all.Error()).
		WithRemedy("correct the file at the line given; the policies in force stay as they are").WithCause(all)
}
