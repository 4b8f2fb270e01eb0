"""`rlvr view`: runs, evaluations and foreign traces on a local web page, or in one HTML file.

`traces` reads what was recorded, `foreign` what other tools recorded, `sources` finds the files, `index` makes them
searchable, `pages` answers the page's questions, `app` serves it, `export` writes it as one file.
"""
