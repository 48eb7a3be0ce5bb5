package files

func withoutOpenat2() { hasOpenat2 = func() bool { return false } }
