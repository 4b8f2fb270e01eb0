"""The domains as data: what each database is about, in the words in which people ask.

A line is an entity: its singular and plural, ``*`` and the kind of its names if its rows have any; after ``>`` the
entities that it refers to, each with the words that link the two; after ``;`` its attributes:

    cat NOUN = WORDS WITH {} = VALUES      one of some values
    town NOUN = WORDS WITH {}              one of some made-up towns, typed by hand
    num NOUN = UNIT = LOW = HIGH           a whole number
    money NOUN = LOW = HIGH                euros and cents
    date NOUN = PARTICIPLE                 a day
    flag NOUN = WORDS IF SO = WORDS IF NOT

The words follow the plural: "loans" + "made in 2023", "members" + "with a student card".
"""

from __future__ import annotations

from typing import Final

HELD_OUT_DOMAINS: Final = {"museum": "validation", "hotel": "test", "energy": "test"}

TEXTS: Final[dict[str, tuple[str, str]]] = {
    "library": ("a city library", """
branch/branches*place ; town town = in {} ; date opening date = opened ; num floor area = m² = 120 = 2400 ; flag car park = with a car park = without a car park
author/authors*person ; cat country = from {} = Chile, Ghana, Japan, Norway, Peru ; date birth date = born
book/books*title > author:by ; cat genre = of the genre {} = crime, drama, essay, poetry, travel ; num length = pages = 60 = 900 ; money purchase price = 5 = 90 ; date purchase date = bought
member/members*person > branch:registered at ; cat card type = with the card type {} = adult, child, senior, student ; date joining date = who joined ; town home town = living in {}
loan/loans > member:made by, book:of ; date loan date = made ; num loan period = days = 1 = 60 ; money late fee = 1 = 30 ; flag return = that have been returned = that are still out
reservation/reservations > member:placed by, book:of ; date reservation date = placed ; cat channel = placed through the {} = app, counter, phone, website ; num waiting time = days = 1 = 90
reading/readings*title > branch:held at, author:with ; date date of the reading = held ; cat audience = for {} = adults, children, families, teenagers ; num attendance = visitors = 5 = 200
donation/donations > branch:given to ; money amount = 10 = 900 ; date day of receipt = received ; cat form = in the form of {} = books, cash, furniture
"""),
    "farm": ("a farmers' cooperative", """
farm/farms*firm ; cat region = in the region {} = coast, hills, lakes, plain ; num area = ha = 5 = 400 ; date joining date = that joined ; flag organic seal = with the organic seal = without the organic seal
field/fields*title > farm:of ; cat soil = with {} soil = clay, loam, peat, sand ; num size = ha = 1 = 60 ; flag irrigation = that are irrigated = that are not irrigated
machine/machines*title > farm:owned by ; cat type of machine = of the type {} = harvester, plough, sprayer, tractor ; money value = 500 = 9000 ; date service date = last serviced
harvest/harvests > field:from, silo:stored at ; cat crop = of {} = barley, beans, maize, oats, wheat ; num weight = kg = 200 = 9000 ; date harvest date = brought in ; num moisture = percent = 8 = 30
silo/silos*place ; town town = in {} ; num capacity = litres = 5000 = 90000 ; date building date = built
sale/sales > silo:out of, buyer:to ; money revenue = 100 = 9000 ; date sale date = agreed ; cat payment term = payable {} = at once, in a month, in a quarter
buyer/buyers*firm ; cat trade = in the trade {} = bakery, brewery, mill, wholesale ; town town = in {} ; num credit limit = thousand euros = 5 = 90
inspection/inspections > farm:of ; date date of the visit = carried out ; cat result = with the result {} = failed, passed, postponed ; num score = points = 10 = 100
"""),
    "airline": ("an airline", """
airport/airports*place ; cat continent = in {} = Africa, America, Asia, Europe ; num runway length = m = 900 = 4000 ; date opening date = opened
aircraft/aircraft*title > airport:based at ; cat model = of the model {} = falcon, heron, kestrel, swift ; num number of seats = seats = 20 = 400 ; date delivery date = delivered
pilot/pilots*person > airport:based at ; cat rank = of the rank {} = captain, first officer, trainee ; num flying time = hours = 100 = 9000 ; date hiring date = hired
flight/flights > aircraft:with, airport:to, pilot:flown by ; date departure date = that departed ; num delay = minutes = 1 = 240 ; num fuel = litres = 900 = 20000 ; flag cancellation = that were cancelled = that were not cancelled
passenger/passengers*person ; cat status = with the status {} = basic, gold, silver ; town home town = living in {} ; date sign-up date = who signed up
booking/bookings > passenger:made by, flight:for ; money fare = 30 = 900 ; date booking date = made ; cat cabin = in the cabin {} = business, economy, premium ; flag meal = with a meal = without a meal
repair/repairs > aircraft:of ; date repair date = carried out ; money cost = 50 = 9000 ; cat part = of the {} = brake, cabin, engine, wing
"""),
    "cinema": ("a chain of cinemas", """
cinema/cinemas*place ; town town = in {} ; date opening date = opened ; flag coffee bar = with a coffee bar = without a coffee bar
screen/screens*title > cinema:in ; num number of seats = seats = 40 = 500 ; cat sound system = with {} sound = digital, mono, stereo ; num width = m = 6 = 24
director/directors*person ; cat country = from {} = Brazil, India, Iran, Italy, Korea ; date birth date = born
film/films*title > director:by ; cat genre = of the genre {} = comedy, crime, drama, horror ; num running time = minutes = 60 = 210 ; date release date = released
showing/showings > film:of, screen:on ; date date of the showing = held ; num attendance = visitors = 1 = 400 ; cat language version = shown {} = dubbed, in the original, with subtitles
sale/sales > showing:for, customer:to ; money price = 5 = 60 ; cat ticket type = of the ticket type {} = adult, child, senior, student ; date sale date = made
customer/customers*person > cinema:registered at ; date joining date = who joined ; cat club level = of the club level {} = blue, gold, silver ; num bonus = points = 10 = 900
snack order/snack orders > customer:by ; money amount = 2 = 50 ; cat snack = of {} = crisps, nachos, popcorn, sweets ; date order date = placed
"""),
    "clinic": ("a group of clinics", """
clinic/clinics*place ; town town = in {} ; num number of beds = beds = 10 = 300 ; date opening date = opened
doctor/doctors*person > clinic:working at ; cat specialty = in the specialty {} = eyes, heart, lungs, skin ; date hiring date = hired ; money daily rate = 200 = 900
patient/patients*person ; town home town = living in {} ; cat insurance = with {} insurance = foreign, private, public ; date birth date = born
visit/visits > patient:by, doctor:to ; date date of the visit = made ; num duration = minutes = 5 = 90 ; cat reason = for {} = check-up, illness, injury, vaccination ; flag follow-up = that need a follow-up = that need no follow-up
prescription/prescriptions > visit:issued at, drug:of ; num dose = mg = 5 = 800 ; date issue date = issued ; num length of the treatment = days = 3 = 60
drug/drugs*title ; cat form = in the form of {} = cream, drops, syrup, tablets ; money price = 2 = 300 ; flag cooling = that must be kept cool = that need not be kept cool
laboratory test/laboratory tests > patient:of ; cat sample = on {} samples = blood, saliva, tissue, urine ; date sample date = taken ; money fee = 10 = 400
invoice/invoices > patient:to ; money amount = 20 = 2000 ; date invoice date = issued ; flag payment = that have been paid = that are unpaid
"""),
    "shop": ("an online shop", """
supplier/suppliers*firm ; cat country = from {} = Austria, China, Kenya, Spain, Turkey ; date contract date = signed up
warehouse/warehouses*place ; town town = in {} ; num floor area = m² = 300 = 9000
product/products*title > supplier:from, warehouse:stored at ; cat department = in the department {} = books, garden, kitchen, tools, toys ; money list price = 2 = 400 ; num weight = kg = 1 = 40 ; date launch date = launched
customer/customers*person ; town home town = living in {} ; date sign-up date = who signed up ; cat newsletter = with the newsletter {} = daily, never, weekly
order/orders > customer:placed by, product:for ; date order date = placed ; num quantity = pieces = 1 = 40 ; money shipping cost = 3 = 40 ; cat payment method = paid by {} = card, invoice, transfer, voucher ; flag gift = wrapped as a gift = not wrapped as a gift
return/returns > customer:from, product:of ; date return date = received ; cat reason = with the reason {} = broken, late, unwanted, wrong size ; money refund = 2 = 300
review/reviews > product:of, customer:by ; num rating = stars = 1 = 10 ; date review date = posted ; flag photo = with a photo = without a photo
"""),
    "museum": ("a museum", """
artist/artists*person ; cat country = from {} = Egypt, France, Mexico, Poland, Vietnam ; date birth date = born
hall/halls*place ; num floor area = m² = 40 = 900 ; cat wing = in the {} wing = east, north, south, west
work/works*title > artist:by, hall:hung in ; cat technique = made in {} = bronze, glass, ink, marble, oil ; num height = m = 1 = 9 ; money insured value = 500 = 90000 ; date acquisition date = acquired
restoration/restorations > work:of ; date start date = started ; num duration = hours = 5 = 400 ; money cost = 100 = 9000 ; flag completion = that are finished = that are not finished
guide/guides*person ; cat language = speaking {} = Arabic, English, French, German ; date hiring date = hired
tour/tours > guide:led by, hall:through ; date date of the tour = held ; num group size = visitors = 2 = 40 ; cat kind of group = for {} = families, schools, seniors, tourists ; money takings = 20 = 600
exhibit loan/exhibit loans > work:of ; date shipping date = shipped ; num distance = km = 10 = 9000 ; cat packing = packed in a {} = box, crate, frame
patron/patrons*person ; town home town = living in {} ; date joining date = who joined
gift/gifts > patron:from ; money amount = 10 = 9000 ; date day of receipt = received ; cat purpose = for the {} = garden, roof, school programme
"""),
    "hotel": ("a group of hotels", """
hotel/hotels*place ; town town = in {} ; cat category = of the category {} = budget, comfort, luxury ; date opening date = opened ; flag pool = with a pool = without a pool
room/rooms*title > hotel:in ; cat room type = of the type {} = double, family, single, suite ; num size = m² = 12 = 90 ; money nightly rate = 40 = 600
guest/guests*person ; cat nationality = of the nationality {} = Canadian, Danish, Greek, Indian ; date registration date = who registered ; town home town = living in {}
stay/stays > guest:by, room:in ; date arrival date = that began ; num length of stay = nights = 1 = 21 ; money bill = 50 = 4000 ; flag breakfast = with breakfast = without breakfast ; cat booking channel = booked through {} = agency, phone, website
cleaning/cleanings > room:of ; date cleaning date = carried out ; num duration = minutes = 10 = 90 ; cat result = judged {} = good, poor, spotless
complaint/complaints > guest:by, hotel:about ; date complaint date = made ; cat subject = about {} = food, heating, noise, staff ; flag answer = that have been answered = that have not been answered
meal/meals > guest:taken by, hotel:at ; money price = 8 = 120 ; date date of the meal = served ; cat kind of meal = for {} = breakfast, dinner, lunch
"""),
    "university": ("a university", """
faculty/faculties*title ; town campus town = in {} ; date founding date = founded ; num budget = thousand euros = 100 = 9000
lecturer/lecturers*person > faculty:employed at ; cat position = in the position of {} = assistant, lecturer, professor ; date hiring date = hired
course/courses*title > lecturer:taught by ; cat level of study = at {} level = bachelor, doctoral, master ; num credits = points = 1 = 30 ; flag laboratory = with laboratory work = without laboratory work
student/students*person > faculty:enrolled at ; cat country = from {} = Canada, Finland, Greece, Nigeria, Thailand ; date enrolment date = who enrolled ; town home town = coming from {}
exam/exams > student:taken by, course:in ; date exam date = taken ; num mark = points = 1 = 100 ; cat form = in {} form = oral, practical, written ; flag pass = that were passed = that were failed
grant/grants > lecturer:won by ; money amount = 500 = 9000 ; date award date = awarded ; cat sponsor = paid by the {} = alumni, industry, ministry
book order/book orders > faculty:by ; money price = 10 = 300 ; date order date = placed ; num number of copies = copies = 1 = 40
"""),
    "insurance": ("an insurance company", """
office/offices*place ; town town = in {} ; date opening date = opened ; num floor area = m² = 40 = 900
agent/agents*person > office:working at ; cat rank = of the rank {} = junior, partner, senior ; date hiring date = hired
client/clients*person > agent:looked after by ; town home town = living in {} ; date birth date = born ; cat occupation = employed as {} = clerk, driver, farmer, nurse, teacher
policy/policies > client:held by ; cat branch of insurance = covering {} = car, health, house, travel ; money yearly premium = 50 = 3000 ; date start date = that began ; flag notice = that are under notice = that are not under notice
claim/claims > policy:under, expert:examined by ; date date of the damage = that arose ; money amount = 50 = 9000 ; cat cause = caused by {} = fire, hail, theft, water ; flag settlement = that have been settled = that are open
expert/experts*person ; cat field of expertise = expert in {} = buildings, medicine, vehicles ; num experience = years = 1 = 40
phone call/phone calls > client:from, agent:answered by ; date date of the call = made ; num duration = minutes = 1 = 90 ; cat subject = about {} = advice, claims, complaints, payments
"""),
    "energy": ("an energy supplier", """
plant/plants*place ; cat source = running on {} = coal, gas, sun, water, wind ; num power = MW = 5 = 900 ; date start-up date = started up
region/regions*title ; num number of inhabitants = inhabitants = 900 = 90000 ; town capital = with the capital {}
household/households*person > region:in ; cat tariff = on the tariff {} = basic, green, night ; date contract date = that signed up ; num number of persons = persons = 1 = 9
meter/meters > household:in ; date installation date = installed ; cat type of meter = of the type {} = analogue, digital, prepaid ; flag seal = with a seal = without a seal
bill/bills > household:to ; money amount = 20 = 2000 ; date billing date = issued ; flag payment = that have been paid = that are unpaid ; num consumption = kWh = 100 = 9000
outage/outages > region:in, plant:caused at ; date date of the outage = that occurred ; num duration = minutes = 1 = 600 ; cat cause = caused by {} = human error, overload, storm
engineer/engineers*person > plant:working at ; cat qualification = with the qualification {} = bachelor, craft, master ; date hiring date = hired
maintenance job/maintenance jobs > plant:at, engineer:led by ; date job date = carried out ; money cost = 100 = 9000 ; num work = hours = 1 = 200 ; cat urgency = of {} urgency = high, low, medium
"""),
    "parcel": ("a parcel service", """
depot/depots*place ; town town = in {} ; num number of gates = gates = 2 = 60 ; date opening date = opened ; flag railway siding = with a railway siding = without a railway siding
driver/drivers*person > depot:working at ; cat licence = with a licence for {} = bicycles, trucks, vans ; date hiring date = hired
van/vans*title > depot:parked at ; cat drive = with {} drive = diesel, electric, hybrid ; num load limit = kg = 100 = 2000 ; date purchase date = bought
sender/senders*firm ; cat trade = in the trade {} = clothing, electronics, food, furniture ; town town = in {} ; date contract date = signed up
parcel/parcels > sender:from, depot:sorted at ; num weight = kg = 1 = 60 ; money postage = 3 = 80 ; date posting date = posted ; cat size class = of the size {} = large, medium, small ; flag insurance = that are insured = that are not insured
delivery/deliveries > parcel:of, driver:by, van:with ; date delivery date = made ; cat result = with the result {} = delivered, nobody home, refused, wrong address ; num distance = km = 1 = 90
damage report/damage reports > parcel:on ; date report date = filed ; money claim = 5 = 900 ; cat kind of damage = about {} goods = broken, lost, wet
fuel stop/fuel stops > van:by ; date date of the stop = made ; money cost = 20 = 200 ; num fuel = litres = 10 = 90
"""),
}  # fmt: skip

# Tables that any firm has beside its own; nobody asks about them here.
HOUSE: Final = """
department/departments*title ; cat floor = on the {} floor = first, second, third ; money yearly budget = 900 = 9000
employee/employees*person > department:in ; cat contract type = with a {} contract = fixed, part-time, permanent ; date entry date = who entered
vehicle/vehicles*title > department:of ; cat fuel type = running on {} = diesel, electricity, petrol ; num mileage = km = 900 = 90000
training/trainings > employee:of ; cat topic = on {} = languages, safety, software ; date training date = held ; num length = hours = 1 = 40
meeting/meetings > department:of ; date meeting date = held ; num duration = minutes = 10 = 180
absence/absences > employee:of ; cat kind of absence = for {} = holiday, illness, parental leave ; date first day = beginning ; num length = days = 1 = 30
expense/expenses > employee:by ; money amount = 5 = 900 ; date receipt date = incurred ; flag approval = that are approved = that are not approved
contract/contracts > department:of ; date signing date = signed ; money value = 100 = 9000 ; cat state = in the state {} = draft, ended, running
device/devices > employee:of ; cat kind of device = of the kind {} = computer, phone, printer ; date purchase date = bought
newsletter/newsletters ; date mailing date = sent ; num circulation = copies = 100 = 9000
survey/surveys*title ; date closing date = closed ; num number of answers = answers = 10 = 900
key/keys > employee:held by ; flag loss = that are lost = that are not lost ; date issue date = issued
parking permit/parking permits > vehicle:for ; date issue date = issued ; num period = months = 1 = 36
press release/press releases ; date release date = published ; cat channel = sent by {} = e-mail, post, radio
backup/backups ; date backup date = made ; num size = megabytes = 900 = 90000 ; flag check = that were checked = that were not checked
alarm/alarms > department:in ; date alarm date = raised ; cat cause = caused by {} = dust, fault, fire
visitor pass/visitor passes > employee:for a guest of ; date visiting date = issued ; cat colour = of the colour {} = blue, green, red
tax record/tax records > department:of ; num year of assessment = = 2019 = 2024 ; money amount = 90 = 9000
"""
