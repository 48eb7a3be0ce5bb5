package confine

import (
	"os"

	"palyra/internal/sandbox"
)

// closeFiles closes what a job handed over. Start does so in every case.
func closeFiles(j sandbox.Job) {
	for _, f := range []*os.File{j.Stdin, j.Stdout, j.Stderr, j.Sealed} {
		if f != nil {
			_ = f.Close() // a second close, of a file given twice, is not an error worth telling
		}
	}
}
