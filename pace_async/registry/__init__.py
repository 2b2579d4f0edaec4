"""Everything that a user can choose by name: one table a file, one entry a thing.

To add a thing, write its file and add one entry here. Flags, help, errors, the settings' schema and
`docs/choices.md` follow from the entry. What depends on the thing is an attribute of its entry, so no other
room compares names.

Invariant: nothing here imports another room, numpy or torch. An entry knows its code, which is imported when it is
first used, and has a type: a checker of types reads the import and sees that the code is of this type.
"""
