package policy

import (
	"encoding/xml"
	"fmt"
	"strconv"

	"palyra/internal/policy/tables"
	"palyra/internal/show"
)

// junitSuites is a report for CI systems: a suite for every file, with the file's faults as errors in it.
type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string     `xml:"name,attr"`
	Class   string     `xml:"classname,attr"`
	File    string     `xml:"file,attr"`
	Line    int        `xml:"line,attr"`
	Failure *junitText `xml:"failure,omitempty"`
	Error   *junitText `xml:"error,omitempty"`
}

type junitText struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// junitOf is the XML of a report. Invisible characters of the files are left out.
func junitOf(r tables.Report) ([]byte, error) {
	all := junitSuites{Name: "palyra policy test"}
	for _, p := range r.Problems {
		text := show.Line(p.Text)
		all.add(p.File, junitCase{
			Name: "line " + strconv.Itoa(p.Line), Line: p.Line,
			Error: &junitText{Message: text, Text: show.Line(p.String())},
		})
	}
	for _, t := range r.Tests {
		c := junitCase{Name: show.Line(t.Name), Line: t.Line}
		if !t.OK {
			text := show.Line(t.Text)
			c.Failure = &junitText{Message: text, Text: fmt.Sprintf("%s:%d: %s", show.Line(t.File), t.Line, text)}
		}
		all.add(t.File, c)
	}
	b, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("cli: junit: %w", err)
	}
	return append([]byte(xml.Header), append(b, '\n')...), nil
}

// add puts a case into the suite of its file.
func (s *junitSuites) add(file string, c junitCase) {
	file = show.Line(file)
	c.Class, c.File = file, file
	i := 0
	for i < len(s.Suites) && s.Suites[i].Name != file {
		i++
	}
	if i == len(s.Suites) {
		s.Suites = append(s.Suites, junitSuite{Name: file})
	}
	one := &s.Suites[i]
	one.Cases = append(one.Cases, c)
	one.Tests, s.Tests = one.Tests+1, s.Tests+1
	if c.Failure != nil {
		one.Failures, s.Failures = one.Failures+1, s.Failures+1
	}
	if c.Error != nil {
		one.Errors, s.Errors = one.Errors+1, s.Errors+1
	}
}
