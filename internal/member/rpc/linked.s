// Functions of linked.go have no bodies, which needs a file of this kind in the package.
