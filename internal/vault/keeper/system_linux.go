package keeper

// systemKeepers are those that Linux has: the Secret Service of a desktop.
func systemKeepers(dir string) map[string]KeyKeeper {
	return map[string]KeyKeeper{SecretService: NewSecretService(dir)}
}
