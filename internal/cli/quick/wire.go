package quick

import (
	"encoding/binary"
	"errors"
	"math"
)

// errStrange is any message that is not what this package expects. The full program then finds out what it means.
var errStrange = errors.New("quick: a message that only the full program understands")

// The numbers of the fields that are written and read. TestFields compares them with the protocol.
const (
	callTool, callArguments, callWorkspace, callDoor, callStream, callTied = 1, 2, 3, 8, 10, 11

	newsAccepted, newsOutcome, newsOutput, newsRunning = 1, 4, 5, 6

	outputStream, outputOffset, outputData = 1, 2, 3

	outcomeKind, outcomeExit, outcomeStdout, outcomeStdout64, outcomeStderr, outcomeStderr64 = 1, 8, 10, 11, 12, 13
	outcomeAttestation                                                                       = 22

	listedWorkspace, workspacePath = 1, 1
)

// outcomeSilent are the other fields of an outcome that do not make anybody say anything about a call.
var outcomeSilent = [...]int{2, 7, 15, 16, 17, 18, 19, 20, 21, 25, 27}

// The wire types of fields.
const (
	wireVarint = 0
	wireBytes  = 2
)

// appendBytes adds a field of bytes or text; an empty one is left out.
func appendBytes(b []byte, number int, v string) []byte {
	if v == "" {
		return b
	}
	b = binary.AppendUvarint(b, uint64(number)<<3|wireBytes)
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

func appendTrue(b []byte, number int) []byte {
	return append(binary.AppendUvarint(b, uint64(number)<<3|wireVarint), 1)
}

// fields calls f with every field of a message, in order; of a number it gets n, of anything else data.
func fields(b []byte, f func(number int, n uint64, data []byte) error) error {
	for len(b) > 0 {
		tag, size := binary.Uvarint(b)
		if size <= 0 || tag>>3 == 0 || tag>>3 > math.MaxInt32 {
			return errStrange
		}
		b = b[size:]
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return errStrange
		}
		b = b[size:]
		var data []byte
		switch tag & 7 {
		case wireVarint:
		case wireBytes:
			if n > uint64(len(b)) {
				return errStrange
			}
			data, b = b[:n:n], b[n:]
		default:
			return errStrange
		}
		if err := f(int(tag>>3), n, data); err != nil {
			return err
		}
	}
	return nil
}
