package process

import "bytes"

// headSize is how many bytes of a file the kernel reads to tell its kind (BINPRM_BUF_SIZE).
const headSize = 256

// interpreter is the content of a "#!" line: a path and at most one argument.
type interpreter struct {
	path string
	arg  string
}

// shebang reads the "#!" line of a file's first bytes as the kernel does (fs/binfmt_script.c, since
// 5.1). found: there is one; ok: the kernel would take it.
func shebang(file []byte) (in interpreter, found, ok bool) {
	if !bytes.HasPrefix(file, []byte("#!")) {
		return in, false, false
	}
	var buf [headSize]byte // zeros after a short file, as in the kernel
	copy(buf[:], file)
	line := buf[2 : headSize-1]
	if end := bytes.IndexByte(buf[:], '\n'); end >= 0 {
		line = buf[2:end]
	} else if name := bytes.TrimLeft(line, " \t"); !bytes.ContainsAny(name, " \t\x00") {
		return in, true, false // the path may be cut off
	}
	line = bytes.Trim(line, " \t")
	name, rest := line, []byte(nil)
	if end := bytes.IndexAny(line, " \t\x00"); end >= 0 {
		name, rest = line[:end], line[end:]
	}
	if len(rest) > 0 && rest[0] != 0 {
		rest, _, _ = bytes.Cut(bytes.TrimLeft(rest, " \t"), []byte{0})
		in.arg = string(rest)
	}
	in.path = string(name)
	return in, true, in.path != ""
}

// elf reports whether a file's first bytes are those of a native program.
func elf(file []byte) bool { return bytes.HasPrefix(file, []byte("\x7fELF")) }
