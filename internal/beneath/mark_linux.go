package beneath

import "golang.org/x/sys/unix"

// Ident is which file something is.
type Ident struct{ Dev, Ino uint64 }

// IdentOf is which file was looked at.
func IdentOf(st *unix.Stat_t) Ident { return Ident{uint64(st.Dev), st.Ino} }

// Mark is what was seen at a path: nothing of a file can change unseen but with its mark. The zero Mark is of nothing.
type Mark struct {
	Dev   uint64 `json:"d"`
	Ino   uint64 `json:"i"`
	Mode  uint32 `json:"m"`
	Size  int64  `json:"s"`
	Mtime int64  `json:"t"`
	Ctime int64  `json:"c"`
}

// MarkOf is the mark of what was looked at.
func MarkOf(st *unix.Stat_t) Mark {
	m := Mark{uint64(st.Dev), st.Ino, st.Mode, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}
	if IsDir(st) { // says nothing
		m.Size = 0
	}
	return m
}

// Ident is which file it is.
func (m Mark) Ident() Ident { return Ident{m.Dev, m.Ino} }

// Moved reports whether it is what was seen, under another name: moving gives
// files another time of change, and nothing else.
func (m Mark) Moved(st *unix.Stat_t) bool {
	now := MarkOf(st)
	now.Ctime = m.Ctime
	return now == m
}

// Same reports whether it is what was seen, also after a start of the machine that counts devices otherwise.
func (m Mark) Same(st *unix.Stat_t) bool {
	now := MarkOf(st)
	now.Dev = m.Dev
	return now == m
}

// Later reports whether one time is after another.
func Later(a, b unix.Timespec) bool { return a.Sec > b.Sec || a.Sec == b.Sec && a.Nsec > b.Nsec }
