// SPDX-License-Identifier: BSD-2-Clause
// Start the page: show the live part, read the address, then what is needed first.

document.getElementById("live").hidden = false;
startTheme();
startPlots();
startHooks();
pageRead.then(foldPictures);
makeTables(document.getElementById("live-tables"));
readAddress();
