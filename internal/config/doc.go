// Package config reads what a server is told: by flags, by the environment, by a file, in
// this order, and by its defaults.
//
// Nothing is guessed. A key that does not exist and a value that is not allowed are
// mistakes, and a mistake names the key, the value, where it came from and what is
// allowed. All of them are found at once.
//
// Every key has one name. In the file it is nested: tls: {cert: …}; everywhere else it has
// dots: tls.cert; in the environment it is ABIDE_TLS_CERT. A secret can also be in a file
// that the environment names: ABIDE_AUTH_ADMIN_TOKEN_FILE.
package config
