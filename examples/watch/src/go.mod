module watch

go 1.24
