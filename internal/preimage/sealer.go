package preimage

import "io"

// Sealer seals what is remembered, so that nobody sees it who reads the files of the store. To seal takes no secret; to
// open may be refused, with what to do.
type Sealer interface {
	// Ready says why nothing can be sealed.
	Ready() error
	// Seal returns a writer; what went through it is whole when that is closed.
	Seal(to io.Writer) (io.WriteCloser, error)
	// Open returns what went through such a writer.
	Open(from io.Reader) (io.Reader, error)
}
