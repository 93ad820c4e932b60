"""The one way in to sessions, for every front end: those that are saved, and those that are open.

    Common           what the sessions of a process share: the connections to providers, the settings and the options
    Catalogue        lists, finds, opens and deletes saved sessions
    SessionPlaces    the files of a user's sessions, and which one a word on the command line means
    opening          opens the session of an agent, and undoes that if the block fails
    when_free        waits for a session that another process has
    FileIndex        the files that completion offers after `@`; `find_wanted` says what a text asks for
    OpenSessions     the sessions that are open, by key: opened once, shared, and closed when nothing needs them

Private: see `fairlead` for the public modules.
"""
